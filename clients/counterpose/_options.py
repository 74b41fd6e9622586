"""Options of requests, each named, typed and documented once; verbs take them as keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from textwrap import indent
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from pydantic import BaseModel

from counterpose_core.contract.field_errors import checked
from counterpose_core.contract.stress_test_thresholds import Thresholds
from counterpose_core.contract.tasks import TaskSettings
from counterpose_core.errors import InvalidRequest
from counterpose_core.text.near_names import did_you_mean

if TYPE_CHECKING:
    from counterpose_core.contract.adversarial_datasets import FoolingRule
    from counterpose_core.contract.bug_hunts import HuntClusters, HuntWords
    from counterpose_core.contract.failure_criteria import Criterion
    from counterpose_core.contract.interventions import Intervention
    from counterpose_core.contract.mixtures import Mixture
    from counterpose_core.contract.preservation import Fault, PreservationOf
    from counterpose_core.contract.regions import RegionOfEdits
    from counterpose_core.contract.sampling_rules import SamplingRule
    from counterpose_core.contract.spending import SpendingLimits
    from counterpose_core.contract.suite_fit import OutsideSuite
    from counterpose_core.contract.transforms import TransformChoice
    from counterpose_core.types import EditType, JudgeName, Selection

AnyTask = TaskSettings | Mapping[str, Any]
"""A task's settings, as ``{"name": "classification"}``, or as an object."""

LabelMap = Mapping[str, Sequence[str]]
"""For a class of a run, the names of those of a classifier's classes whose probabilities are summed."""

F = TypeVar("F", bound=Callable[..., Any])


class LabelImageOptions(TypedDict, total=False):
    """Options of runs that generate images of labels.

    classes: among which the classifiers choose; default: those that ``label_map`` names, or that all of them
        have.
    label_map: for a class, those of a classifier's own classes that it sums, such as
        ``{"boat": ["speedboat", "canoe"]}``.
    parents: the parent of a class, such as "insect" for "fly", for the prompt and ``no-relative``.
    criterion: what counts as a failure, such as ``{"name": "not-in-top", "k": 3}``; default: the first
        answer is not the label.
    prompt: the prompt of the label alone, with ``<class>``; default: the suite's.
    steps: denoising steps; default: the suite's.
    guidance: guidance scale; default: the suite's.
    scheduler: diffusion scheduler; default: the suite's.
    """

    classes: Sequence[str] | None
    label_map: LabelMap | None
    parents: Mapping[str, str] | None
    criterion: Criterion | Mapping[str, Any] | None
    prompt: str | None
    steps: int | None
    guidance: float | None
    scheduler: str | None


class StressTestOptions(TypedDict, total=False):
    """Options of a stress test.

    label_map: for a class of the dataset, those of a classifier's own classes that it sums, such as
        ``{"boat": ["speedboat", "canoe"]}``.
    task: what counts as right, such as ``{"name": "classification", "acceptable": {"notebook": ["laptop"]}}``
        for classes that are as right; default: the class of each image alone.
    edit_types: the kinds of edits to plan.
    max_edits_per_image: edits planned per image; 0 makes only the ``interventions``.
    interventions: your own edits. ``"husky=>schnauzer,poodle"`` replaces a word, once per word after the
        arrow; ``"=>in the snow"`` appends; ``"in the rain=>"`` removes.
    lance_r_edits_per_image: edits of the random baseline LANCE-R per image.
    preset: a preset of the suite; the suite's default when omitted.
    selection: ``"paper"`` compares the whole sweep, ``"released"`` the largest that passes.
    strength: the sweep, strengths from 0 to 1 of which one is chosen for each edit; default: the preset's.
    thresholds: of the gate and the text filters, by name, such as ``{"direction": 0.3}``; default: the
        suite's. Cosines from -1 to 1, but for ``closer``; `Thresholds` describes each.
    limit: use at most this many images.
    refused_words: words that no edit may add.
    exclude: images to skip, as ``"cat/3.png"``.
    confirm: test what seems to hurt on images that were kept for it; False edits every image once.
    confirm_share: the share of each class's images to keep.
    near_duplicates: take images of a class for one group if the cosine of their CLIP features is at least
        this; None groups only what the dataset names and equal images.
    outside_suite: ``"stop"`` a run whose first images are unlike those that the suite was trained on, or
        ``"continue"``.
    preservation: of which edits it is measured whether only the asked change changed: ``"served"``, those
        that a server of others makes, ``"all"`` or ``"none"``.
    refused_faults: faults for which an edit is dropped: ``"moved"``, ``"scaled"``, ``"reshaped"``,
        ``"ignored"``, and with a ``region`` ``"drifted"`` and ``"leaked"``.
    judges: who says whether an edit is right, of ``"clip"``, ``"encoder"`` and ``"judge"``; all must, or as
        many as ``thresholds={"keep": 2}`` says. ``"without"`` is one that has no vote.
    region: where edits may change an image: its ``"object"``, its ``"background"``, the ``"mask"`` that the
        dataset has for it, or where the editor looks for the changed ``"words"``; default: that of the
        preset, else everywhere.
    transforms: operations on the images, of a suite that has them, such as ``{"operations": ["rotation"],
        "levels": [1, 3, 5], "size": 512}``; `TransformChoice` describes them.
    spending: what servers of others may be asked for, and its prices: ``{"images": 200, "usd": 5.0, "prices":
        {"a-model": {"usd_per_image": 0.02}}}``; `SpendingLimits` describes them. There the run stops.
    applied_from: id of the stress test one of whose changes ``interventions`` repeat, to be listed under it.
    """

    label_map: LabelMap | None
    task: AnyTask | None
    edit_types: Sequence[EditType]
    max_edits_per_image: int
    interventions: Sequence[str | Intervention]
    lance_r_edits_per_image: int
    preset: str | None
    selection: Selection
    strength: Sequence[float] | None
    thresholds: AnyThresholds
    limit: int | None
    refused_words: Sequence[str]
    exclude: Sequence[str]
    confirm: bool
    confirm_share: float
    near_duplicates: float | None
    outside_suite: OutsideSuite
    preservation: PreservationOf
    refused_faults: Sequence[Fault]
    spending: SpendingLimits | Mapping[str, Any] | None
    judges: Sequence[JudgeName]
    region: RegionOfEdits | None
    applied_from: str | None
    transforms: TransformChoice | Mapping[str, Any] | None


class HuntOptions(LabelImageOptions, total=False):
    """Options of a bug hunt.

    descriptions: of your own, to measure on held-out images instead of a search, such as "a photo of a fly
        at night".
    budget: most ``images`` (default: 3,000) and, if set, ``minutes`` by the clock.
    sampling: when enough images of a prompt are drawn, such as ``{"name": "sequential"}`` or
        ``{"name": "inverse", "failures": 20}``; default: as many as the budget gives.
    hypotheses: most descriptions that are measured for each label.
    winners: most of them that held-out images measure again.
    held_out: images of each of these, and of the label alone.
    refine: images of each shorter form of a winner, its parts alone and without its adjectives; 0 leaves
        winners as they are. Default: 32, 24 or 16, where a quarter of the budget suffices.
    vary: share of the label's images that are drawn from edited captions of the others instead.
    clusters: how failures are clustered before they are described, each cluster by itself: "none",
        "predicted" (by the class that they are taken for), or "features" (then by their images).
    words: how captions become descriptions: "frequency" compares words of failures and successes,
        "likelihood" combines the sentences that the captioner finds likeliest, or "both".
    sentences: most sentences that are combined.
    captions: most failures, and as many successes, to caption for each label and classifier.
    mentions: held-out images of a label alone to caption, which tells the share of all its images that fail
        as each bug says; 0 for none.
    mixture: prompts with known shares, on which each label's failure rate is measured in the end, however
        rare: ``{"images": 2000, "components": [{"prompt": "a photo of a <class> in the snow", "share":
        0.001}]}``; the label alone has the rest.
    spending: what servers of others may be asked for, and its prices: ``{"images": 200, "usd": 5.0, "prices":
        {"a-model": {"usd_per_image": 0.02}}}``; `SpendingLimits` describes them. There the run stops.
    """

    descriptions: Sequence[str]
    budget: Mapping[str, float] | None
    sampling: SamplingRule | Mapping[str, Any] | None
    hypotheses: int
    winners: int
    held_out: int
    refine: int | None
    vary: float
    clusters: HuntClusters
    words: HuntWords
    sentences: int
    captions: int
    mentions: int
    mixture: Mixture | Mapping[str, Any] | None
    spending: SpendingLimits | Mapping[str, Any] | None


class AdversarialOptions(LabelImageOptions, total=False):
    """Options of an adversarial dataset.

    fools: keep images that fool ``"any"`` of the classifiers, or ``"all"``.
    captions: most captions that are generated from.
    sentences: how many first sentences of a caption are used.
    samples: most images of each caption.
    most_kept: most images of a caption that are kept.
    images: most images in all, those of the labels alone included.
    baseline: images of each label alone.
    near_duplicates: CLIP's cosine from which an image repeats another; None keeps repetitions.
    reference: name of a dataset of real images, to measure how far the kept ones are from them.
    reference_images: most of its images that are compared.
    spending: what servers of others may be asked for, as in a bug hunt's options; there the run stops.
    """

    fools: FoolingRule
    captions: int
    sentences: int
    samples: int
    most_kept: int
    images: int
    baseline: int
    near_duplicates: float | None
    reference: str | None
    reference_images: int
    spending: SpendingLimits | Mapping[str, Any] | None


AnyThresholds = Thresholds | Mapping[str, float | bool | str]
"""Thresholds by name, as ``{"direction": 0.3}``, or as an object."""


def thresholds_of(given: AnyThresholds) -> Thresholds:
    """Check thresholds by name.

    Raises:
        InvalidRequest: a name is unknown, or a value out of range.
    """
    if isinstance(given, Thresholds):
        return given
    if unknown := sorted(given.keys() - Thresholds.model_fields.keys()):
        known = ", ".join(Thresholds.model_fields)
        meant = did_you_mean(unknown[0], Thresholds.model_fields)
        raise InvalidRequest(f"no threshold is named {unknown[0]!r}{meant}; there are {known}")
    return checked(Thresholds, given)


def chosen(options: Mapping[str, Any], known: type[Any]) -> dict[str, Any]:
    """Return the options that were given and are not None, as a request's body takes them.

    Args:
        options: what a verb was called with.
        known: the typed dictionary of its options.

    Raises:
        TypeError: the verb has no such option, as if it named each in its signature.
    """
    if unknown := sorted(options.keys() - known.__annotations__.keys()):
        raise TypeError(f"create() got an unexpected keyword argument {unknown[0]!r}")
    given = {name: _plain(value) for name, value in options.items() if value is not None}
    return given | ({"label_map": label_map_of(given["label_map"])} if "label_map" in given else {})


def label_map_of(given: LabelMap | None) -> dict[str, list[str]]:
    """Return a label map as a request takes it; a single name may stand without its list.

    Raises:
        InvalidRequest: it is no mapping from names to names.
    """
    if not isinstance(given or {}, Mapping):
        raise InvalidRequest(
            f"label_map maps a class to names of classes, such as {{'boat': ['speedboat']}}, not {given!r}"
        )
    found = {
        name: [named] if isinstance(named, str) else _plain(named) for name, named in (given or {}).items()
    }
    for name, named in found.items():
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
            raise InvalidRequest(f"the label map gives {name!r} no list of class names, but {named!r}")
    return found


def _plain(value: Any) -> Any:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return list(value) if is_list else value


def spells_out(body: type[BaseModel], *options: type[Any]) -> Callable[[F], F]:
    """Let ``help()``, notebooks and ``inspect`` show each option of a verb that takes them as ``**options``.

    Args:
        body: the request's body, which has the defaults.
        options: the typed dictionary of the options, and those that it extends.
    """

    def spell_out(verb: F) -> F:
        told = inspect.signature(verb)
        named = [each for each in told.parameters.values() if each.kind is not each.VAR_KEYWORD]
        more = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_default(body, name),
                annotation=annotation.__forward_arg__,
            )
            for name, annotation in options[0].__annotations__.items()
        ]
        lines = "\n".join(inspect.cleandoc(each.__doc__ or "").partition("\n\n")[2] for each in options)
        verb.__doc__ = f"{inspect.cleandoc(verb.__doc__ or '')}\n\nOptions:\n{indent(lines, '    ')}\n"
        verb.__signature__ = told.replace(parameters=[*named, *more])  # type: ignore[attr-defined]  # read by inspect
        return verb

    return spell_out


def _default(body: type[BaseModel], name: str) -> Any:
    # What the gateway makes of an option that is left out.
    default = body.model_fields[name].get_default(call_default_factory=True)
    return tuple(default) if isinstance(default, list) else default
