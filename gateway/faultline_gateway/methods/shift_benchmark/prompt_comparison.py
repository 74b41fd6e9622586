"""Fine-grained debugging: one class's prompts side by side, by token and by name (DI, section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.shift_benchmark_summary import PromptAccuracy
from faultline_core.shift_benchmark.fine_grained import Images, compare_prompts
from faultline_core.statistics.bootstrap import Flags
from faultline_gateway.methods.shift_benchmark.cells import GENERATED
from faultline_gateway.methods.shift_benchmark.evidence import ImageSourceEvidence
from faultline_gateway.runs.estimator import Estimator


def summarize_prompts(
    seen: Sequence[tuple[ImageSourceEvidence, Flags]], estimator: Estimator
) -> list[PromptAccuracy]:
    """Compare the prompts of the only class for each model; empty with several classes.

    ``seen`` are the image sources, each with flags of its kept images. Only generated images are compared,
    because others share no seeds.
    """
    sides = [(evidence, kept) for evidence, kept in seen if evidence.image_source in GENERATED]
    if not sides or len(sides[0][0].classes) > 1:
        return []
    rows: list[PromptAccuracy] = []
    for index, model in enumerate(sides[0][0].models):
        answers: dict[str, dict[str, Images]] = {
            evidence.image_source: {
                name: {
                    int(place): float(evidence.right[condition, 0, place, index])
                    for place in kept[condition, 0].nonzero()[0]
                }
                for condition, name in enumerate(evidence.names)
            }
            for evidence, kept in sides
        }
        prompts = {shift.name: shift.prompt for evidence, _ in sides for shift in evidence.conditions}
        rows += [
            PromptAccuracy(
                model=model,
                image_source=comparison.image_source,
                condition=comparison.prompt,
                prompt=prompts[comparison.prompt],
                accuracy=comparison.accuracy,
                drop=comparison.drop,
                beside_token=comparison.beside_token,
            )
            for comparison in compare_prompts(answers, estimator.generator(f"prompts/{model}"))
        ]
    return rows
