"""An adversarial dataset in one sentence."""

from __future__ import annotations

from counterpose_core.contract.adversarial_dataset_summary import (
    AdversarialDatasetSummary,
    ClassifierFailures,
)
from counterpose_core.contract.runs import Run
from counterpose_core.types import FINAL_RUN_STATES


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
