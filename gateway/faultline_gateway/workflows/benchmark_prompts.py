"""Fine-grained debugging: one class's prompts side by side, by token and by name (DI, section 5)."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.shift_benchmark_summary import PromptAccuracy
from faultline_core.fine_grained import Pictures, compare_prompts
from faultline_core.shift_filter import Flags
from faultline_gateway.workflows.benchmark_cells import GENERATED
from faultline_gateway.workflows.benchmark_evidence import SourceEvidence
from faultline_gateway.workflows.estimates import Estimator


def summarize_prompts(
    seen: Sequence[tuple[SourceEvidence, Flags]], estimator: Estimator
) -> list[PromptAccuracy]:
    """Compare the prompts of the one class for each model; nothing where there are several classes.

    ``seen`` are the sources and which of their pictures are kept. Only generated pictures stand side by
    side: others share no seeds.
    """
    sides = [(evidence, kept) for evidence, kept in seen if evidence.source in GENERATED]
    if not sides or len(sides[0][0].classes) > 1:
        return []
    rows: list[PromptAccuracy] = []
    for index, model in enumerate(sides[0][0].models):
        answers: dict[str, dict[str, Pictures]] = {
            evidence.source: {
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
                source=found.source,
                condition=found.prompt,
                prompt=prompts[found.prompt],
                accuracy=found.accuracy,
                drop=found.drop,
                beside_token=found.beside_token,
            )
            for found in compare_prompts(answers, estimator.generator(f"prompts/{model}"))
        ]
    return rows
