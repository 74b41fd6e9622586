"""The records and the card of an exported adversarial dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.adversarial_datasets import AdversarialItem, AdversarialResult
from counterpose_core.contract.served_images import seed_of
from counterpose_gateway.exports.card import Card
from counterpose_gateway.exports.records import KEPT, Record, answers_of
from counterpose_gateway.methods.adversarial_dataset.items import RecordedDataset
from counterpose_gateway.runs.method import ExportChoice
from counterpose_gateway.steps.adversarial_images import fools


def export(
    summary: AdversarialDatasetSummary, items: Iterable[AdversarialItem], choice: ExportChoice
) -> tuple[Card, Iterator[Record]]:
    """Return the images that the dataset keeps."""
    records = adversarial_records(summary, items, dropped=choice.dropped)
    return adversarial_card(summary, dropped=choice.dropped), records


def adversarial_records(
    summary: AdversarialDatasetSummary, items: Iterable[AdversarialItem], *, dropped: bool = False
) -> Iterator[Record]:
    """Yield a record for each kept image; ``dropped`` adds those that fool and that a filter dropped."""
    recorded = RecordedDataset.of(summary.config, items)
    for item in recorded.of_phase("sample"):
        found, result = recorded.selection.verdicts[item.id], item.result
        if item.state != "done" or result is None:
            continue
        if found == KEPT or (dropped and fools(result, summary.config.request)):
            yield _record(summary.run_id, item, result, found)


def adversarial_card(summary: AdversarialDatasetSummary, *, dropped: bool = False) -> Card:
    """Describe the images of an adversarial dataset and how often classifiers fail on its captions."""
    request = summary.config.request
    of_them = " The set includes images that a filter dropped, each with its reason." if dropped else ""
    return Card(
        title=f"Images that fool {', '.join(request.classifiers)[:150]}",
        what=(
            "Generated images that image classifiers get wrong. They were chosen because they do: on these "
            f"classifiers an accuracy on them says nothing.{of_them}"
        ),
        made=(
            "Wiles et al., section 4.2: captions of seeds were generated from, and the images that fool "
            f"{request.fools} of the classifiers kept, at most {request.most_kept} of a caption. "
            f"Counterpose's run `{summary.run_id}`, seed {request.seed}, suite `{summary.config.suite}`."
        ),
        figures={
            f"failure rate of {each.classifier} on unchosen images of the captions": each.rate
            for each in summary.classifiers
        }
        | {
            f"failure rate of {each.classifier} on the labels alone": each.baseline
            for each in summary.classifiers
        },
    )


def _record(run_id: str, item: AdversarialItem, result: AdversarialResult, found: str) -> Record:
    number = 0 if item.instruction is None else item.instruction.caption or 0
    seed = seed_of(result.seed, result.served)
    return Record(
        image=result.image,
        item=item.id,
        class_name=item.label,
        shift=f"caption {number}",
        image_source="caption",
        run=run_id,
        prompt=result.prompt,
        seed=seed,
        repeatable=result.served is None or seed is not None,
        model=result.models["editor"],
        scores={"object_similarity": result.object_similarity}
        | {f"truth {name}": pair.score for name, pair in result.predictions.items()},
        answers=answers_of(result.predictions),
        verdict=found,
        origin="generated",
    )
