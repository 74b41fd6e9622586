"""The images of an ended run that fool its classifiers, and its images of the labels alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from counterpose_core.contract.adversarial_datasets import AdversarialDatasetConfig, AdversarialItem
from counterpose_core.contract.bug_hunts import BugHuntConfig, HuntItem
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.runs import Run
from counterpose_core.contract.samples import SampleResult
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.steps.adversarial_images import select_images, thresholds_of
from counterpose_gateway.steps.failed_samples import count_failures, label_threshold

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger


@dataclass(frozen=True)
class FoolingImage:
    """An image, what it shows, its prompt, and the classifiers that it fools; none for a label alone."""

    image: str
    label: str
    prompt: str
    fools: tuple[str, ...] = ()


@dataclass
class FoolingImages:
    """What a transfer needs of the run that it is about."""

    rows: Sequence[str]
    classes: Sequence[str]
    parents: Mapping[str, str]
    """Those of its request."""
    criterion: Criterion
    fooling: list[FoolingImage] = field(default_factory=list)
    baseline: list[FoolingImage] = field(default_factory=list)


def fooling_images(run: Run, ledger: Ledger) -> FoolingImages:
    """Read an ended adversarial dataset or bug hunt."""
    if run.kind == "bug-hunt":
        return _of_hunt(recorded_config(BugHuntConfig, run), list(ledger.items.of(run.id, HuntItem)))
    config = recorded_config(AdversarialDatasetConfig, run)
    return _of_dataset(config, list(ledger.items.of(run.id, AdversarialItem)))


def _of_dataset(config: AdversarialDatasetConfig, items: Sequence[AdversarialItem]) -> FoolingImages:
    told = [(item, item.instruction.phase) for item in items if item.instruction is not None]
    baseline = [item for item, phase in told if phase == "baseline"]
    samples = [item for item, phase in told if phase == "sample"]
    request = config.request
    found = FoolingImages(request.classifiers, config.classes, request.parents, request.criterion)
    for item in select_images(config, samples, thresholds_of(config, baseline)).kept:
        if (result := item.result) is not None:
            fools = tuple(spec for spec in request.classifiers if result.failed.get(spec))
            found.fooling.append(_image(item.label, result, fools))
    found.baseline = _alone((item.label, item.result) for item in baseline)
    return found


def _of_hunt(config: BugHuntConfig, items: Sequence[HuntItem]) -> FoolingImages:
    """Held-out images of descriptions alone: those of discovery were chosen again and again."""
    request = config.request
    found = FoolingImages(request.classifiers, config.classes, request.parents, request.criterion)
    alone: list[tuple[str, SampleResult | None]] = []
    for label in request.labels:
        told = [(item, item.instruction) for item in items if item.label == label]
        of_label = [(item, each) for item, each in told if each is not None]
        baseline = [item for item, each in of_label if each.phase == "baseline"]
        held_out = [(item, each) for item, each in of_label if each.phase == "held-out"]
        described = [item for item, each in held_out if each.hypothesis is not None]
        threshold = label_threshold(baseline).threshold
        fools: dict[str, list[str]] = {}
        results: dict[str, SampleResult] = {}
        for spec in request.classifiers:
            for item in count_failures(described, spec, threshold).failures:
                if item.result is not None:
                    fools.setdefault(item.id, []).append(spec)
                    results[item.id] = item.result
        found.fooling += [_image(label, results[name], tuple(specs)) for name, specs in fools.items()]
        alone += [(label, item.result) for item in baseline]
        alone += [(label, item.result) for item, each in held_out if each.hypothesis is None]
    found.baseline = _alone(alone)
    return found


def _image(label: str, result: SampleResult, fools: tuple[str, ...] = ()) -> FoolingImage:
    return FoolingImage(result.image, label, result.prompt or "", fools)


def _alone(results: Iterable[tuple[str, SampleResult | None]]) -> list[FoolingImage]:
    """Each image once, however often it was drawn."""
    found = {(label, each.image): _image(label, each) for label, each in results if each is not None}
    return list(found.values())
