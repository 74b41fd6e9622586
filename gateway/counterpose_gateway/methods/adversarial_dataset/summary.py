"""Sum up an adversarial dataset: what it keeps, what each filter dropped, and how often captions fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from counterpose_core.adversarial_dataset.rounds import FIRST_ROUND
from counterpose_core.blobs import cache_key
from counterpose_core.bug_hunt.sampling import SequentialSampling
from counterpose_core.contract.adversarial_dataset_summary import (
    AdversarialDatasetSummary,
    CaptionYield,
    ClassifierFailures,
    KeptImage,
    SeedCounts,
)
from counterpose_core.contract.adversarial_datasets import (
    AdversarialDatasetConfig,
    AdversarialItem,
    DatasetSeeds,
)
from counterpose_core.contract.bug_hunt_summary import LabelBaseline, LabelObject
from counterpose_core.contract.features import FeatureVector
from counterpose_core.contract.realism import RealismSummary
from counterpose_core.contract.runs import Run
from counterpose_core.statistics.bootstrap import bootstrap_ratio, proportion
from counterpose_core.types import FINAL_RUN_STATES, Estimate
from counterpose_gateway.methods.adversarial_dataset.items import RecordedDataset
from counterpose_gateway.runs.recorded import recorded_config
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.steps.adversarial_images import KEPT, NOT_FOOLED
from counterpose_gateway.steps.failed_samples import count_failures
from counterpose_gateway.steps.failure_rates import failure_rate, taken_for
from counterpose_gateway.steps.image_distances import image_distances
from counterpose_gateway.summaries.accounting import count_reasons

SHOWN_IMAGES = 24
_FOOLING = (KEPT, "near-duplicate", "over-cap")
_JUDGED = (*_FOOLING, NOT_FOOLED)


def summarize(run: Run, items: Iterable[AdversarialItem]) -> AdversarialDatasetSummary:
    """Sum up the run so far."""
    listed = list(items)
    config = recorded_config(AdversarialDatasetConfig, run)
    recorded = RecordedDataset.of(config, listed)
    kept = recorded.selection.kept
    summary = AdversarialDatasetSummary(
        run_id=run.id,
        config=config,
        request_counts=run.request_counts,
        digest=_digest(kept),
        kept=len(kept),
        labels=dict(sorted(Counter(item.label for item in kept).items())),
        images=sum(item.result is not None for item in recorded.of_phase("sample")),
        dropped=recorded.selection.dropped,
        seeds=_seeds(recorded),
        captions=_captions(recorded),
        left_out=dict(Counter(config.dropped) + recorded.prompts.dropped),
        classifiers=[_failures(recorded, spec) for spec in config.request.classifiers],
        baselines=list(_baselines(recorded)),
        objects={
            label: LabelObject.model_validate(vars(found)) for label, found in recorded.thresholds.items()
        },
        distances=_distances(recorded),
        shown=list(islice(_in_turns(recorded), SHOWN_IMAGES)),
        failed_codes=count_reasons(item.code for item in listed if item.state == "failed"),
        filtered=count_reasons(item.reason for item in listed if item.state == "filtered"),
        seconds=recorded.seconds,
        cost=recorded.cost,
        verdict="",
    )
    return summary.model_copy(update={"verdict": verdict(run, summary)})


def _distances(recorded: RecordedDataset) -> RealismSummary | None:
    sets = {
        "kept": recorded.selection.kept,
        "seeds": recorded.of_phase("seed"),
        "labels-alone": recorded.of_phase("baseline"),
    }
    return image_distances(
        _features(recorded.of_phase("reference")),
        {name: _features(items) for name, items in sets.items()},
        network=recorded.config.clip,
        seed=recorded.config.request.seed,
    )


def _features(items: Iterable[AdversarialItem]) -> list[FeatureVector]:
    results = (item.result for item in items)
    return [each.features for each in results if each is not None and each.features is not None]


def _digest(kept: Iterable[AdversarialItem]) -> str:
    pairs = sorted((item.result.image, item.label) for item in kept if item.result is not None)
    return cache_key(images=[list(pair) for pair in pairs])


def _seeds(recorded: RecordedDataset) -> SeedCounts:
    items = recorded.of_phase("seed")
    if not isinstance(recorded.config.request.seeds, DatasetSeeds):
        known = sum(each.seeds for each in recorded.config.prompts)
        return SeedCounts(looked_at=known + sum(recorded.config.dropped.values()), captioned=0)
    ended = (item.reason or item.code for item in items if item.state in ("filtered", "failed"))
    return SeedCounts(
        looked_at=len(items),
        captioned=sum(item.state == "done" for item in items),
        dropped=count_reasons(ended),
    )


def _captions(recorded: RecordedDataset) -> list[CaptionYield]:
    found: list[CaptionYield] = []
    verdicts = recorded.selection.verdicts
    for number, prompt in enumerate(recorded.prompts.prompts, start=1):
        items = recorded.by_caption.get(number, [])
        judged = Counter(verdicts[item.id] for item in items)
        fooling = sum(judged[name] for name in _FOOLING)
        rule = SequentialSampling(threshold=0.0, most_images=max(len(items), 1))
        found.append(
            CaptionYield(
                number=number,
                label=prompt.label,
                prompt=prompt.text,
                seeds=prompt.seeds,
                made=len(items),
                kept=judged[KEPT],
                fooling=rule.rate(fooling, sum(judged[name] for name in _JUDGED)),
            )
        )
    return found


def _failures(recorded: RecordedDataset, spec: str) -> ClassifierFailures:
    """Failures on the first images of each caption: how many follow depends on what failed."""
    counts: dict[int, tuple[int, int]] = {}
    for number, items in recorded.by_caption.items():
        shown_from = recorded.thresholds[items[0].label].threshold
        first = [item for item in items if item.slot < FIRST_ROUND]
        counted = count_failures(first, spec, shown_from).counts
        counts[number] = (counted.failures, counted.images)
    generator = np.random.default_rng(derive_seed(recorded.config.request.seed, "rates", spec))
    return ClassifierFailures(
        classifier=spec,
        rate=bootstrap_ratio(counts, generator),
        baseline=_baseline(recorded, spec),
        kept=sum(
            item.result is not None and item.result.failed.get(spec, False)
            for item in recorded.selection.kept
        ),
    )


def _baseline(recorded: RecordedDataset, spec: str) -> Estimate:
    pairs = [each.failure for each in _baselines(recorded) if each.classifier == spec]
    return proportion(sum(each.failures for each in pairs), sum(each.rate.n for each in pairs))


def _baselines(recorded: RecordedDataset) -> Iterator[LabelBaseline]:
    config = recorded.config
    for label in config.labels:
        items = [item for item in recorded.of_phase("baseline") if item.label == label]
        for spec in config.request.classifiers:
            counted = count_failures(items, spec, recorded.thresholds[label].threshold)
            yield LabelBaseline(
                label=label,
                classifier=spec,
                prompt=config.baselines[label],
                failure=failure_rate(counted, config.request.criterion),
                taken_for=taken_for(counted, spec, label),
            )


def _in_turns(recorded: RecordedDataset) -> Iterator[KeptImage]:
    """The kept images, the first of each caption before the second of any."""
    turns: dict[int, list[AdversarialItem]] = {}
    seen = Counter[int]()
    for item in recorded.selection.kept:
        number = 0 if item.instruction is None else item.instruction.caption or 0
        turns.setdefault(seen[number], []).append(item)
        seen[number] += 1
    for turn in sorted(turns):
        for item in turns[turn]:
            if (result := item.result) is not None:
                answers = {
                    spec: result.predictions[spec].answer
                    for spec, failed in result.failed.items()
                    if failed and spec in result.predictions
                }
                yield KeptImage(
                    item=item.id, image=result.image, label=item.label, prompt=result.prompt or "",
                    answers=answers,
                )  # fmt: skip


def verdict(run: Run, summary: AdversarialDatasetSummary) -> str:
    """Say how many images fool whom, and how often captions fail against the labels alone."""
    so_far = "" if run.state in FINAL_RUN_STATES else " so far"
    if not summary.captions:
        return (
            f"No caption{so_far} to generate from: {summary.seeds.looked_at} seeds were looked at, "
            f"{summary.seeds.captioned} captioned."
        )
    request = summary.config.request
    whom = f"{request.fools} of {len(request.classifiers)} classifiers"
    whom = request.classifiers[0] if len(request.classifiers) == 1 else whom
    if not summary.kept:
        return (
            f"No image{so_far} fools {whom}: {summary.images} of {len(summary.captions)} captions were drawn."
        )
    worst = max(summary.classifiers, key=lambda each: each.rate.estimate or 0.0)
    images = "1 image fools" if summary.kept == 1 else f"{summary.kept} images{so_far} fool"
    captions = "1 caption" if len(summary.captions) == 1 else f"{len(summary.captions)} captions"
    return f"{images} {whom}, of {summary.images} from {captions}. {_rates(worst)}"


def _rates(worst: ClassifierFailures) -> str:
    rate, baseline = worst.rate, worst.baseline
    if rate.estimate is None or baseline.estimate is None:
        return f"How often {worst.classifier} fails on them is not known."
    return (
        f"{worst.classifier} fails on {100 * rate.estimate:.0f} % of unchosen images of the captions "
        f"(n={rate.n}), on {100 * baseline.estimate:.0f} % of the labels alone (n={baseline.n})."
    )
