"""The findings of a stress test as rows: what changed, what it cost, and one pair of images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterpose._sync.run_handle import RunHandle
from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.runs import Item
from counterpose_core.contract.stress_tests import Insight, StressTestSummary
from counterpose_core.errors import NotFound

MOST_ROWS = 50
"""Two images a row: more than a page of them nobody looks at, and the report has all."""

COLUMNS = (
    "finding", "state", "classifier", "class", "change", "source", "counterfactual", "caption",
    "edited caption", "answer", "p source", "p counterfactual", "loss", "low", "high", "n", "flipped", "of",
    "sentence",
)  # fmt: skip
"""The columns of a table of findings; `IMAGES` hold images, ``loss`` has its 95 % interval and n."""
IMAGES = ("source", "counterfactual")


@dataclass(frozen=True)
class Row:
    """A finding's values by the names of the columns, without images, and its two images as PNG."""

    values: dict[str, Any]
    source: bytes
    counterfactual: bytes

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write the two images, and return their files."""
        files = tuple(folder / f"{self.values['finding']}-{shown}.png" for shown in IMAGES)
        for file, png in zip(files, (self.source, self.counterfactual), strict=True):
            file.write_bytes(png)
        return files[0], files[1]


def rows(run: RunHandle[Any, Any], summary: ResponseBody) -> Iterator[Row]:
    """Yield a row for each finding, the surest first; of a run of one stage, for each insight.

    Runs of other kinds than a stress test have none. A finding whose item is gone is left out.
    """
    if not isinstance(summary, StressTestSummary):
        return
    found = [_of_finding(each) for each in summary.findings] or [
        _of_insight(number, each) for number, each in enumerate(summary.insights, start=1)
    ]
    for item_id, values in found[:MOST_ROWS]:
        try:
            item: Item = run.item(item_id)
        except NotFound:
            continue
        if item.result is not None:
            pair = _of_pair(item, str(values["classifier"]))
            yield Row(values | pair, run.image(item.source_image), run.image(item.result.image))


def _of_finding(finding: Finding) -> tuple[str, dict[str, Any]]:
    tested = finding.confirmed
    loss = None if tested is None else tested.loss
    return finding.pairs[0].edit if finding.pairs else "", {
        "finding": finding.number,
        "state": finding.state,
        "classifier": finding.classifier,
        "class": finding.object_class,
        "change": change(finding.edit_type, finding.removed, finding.added),
        # What the screen saw has no interval: the change was chosen because it is large.
        "loss": finding.screened.loss if loss is None else loss.estimate,
        "low": None if loss is None else loss.low,
        "high": None if loss is None else loss.high,
        "n": finding.screened.n_sources if loss is None else loss.n,
        "flipped": finding.flipped,
        "of": finding.of,
        "sentence": finding.sentence,
    }


def _of_insight(number: int, insight: Insight) -> tuple[str, dict[str, Any]]:
    loss = insight.delta_p
    return insight.example_item, {
        "finding": number,
        "state": "significant" if insight.significant else "hint",
        "classifier": insight.classifier,
        "class": insight.object_class,
        "change": change(insight.edit_type, insight.removed, insight.added),
        "loss": None if loss.estimate is None else -loss.estimate,
        "low": None if loss.high is None else -loss.high,
        "high": None if loss.low is None else -loss.low,
        "n": loss.n,
        "flipped": None,
        "of": insight.n_images,
        "sentence": insight.sentence,
    }


def _of_pair(item: Item, classifier: str) -> dict[str, Any]:
    result = item.result
    before = None if result is None else result.original_predictions.get(classifier)
    after = None if result is None else result.predictions.get(classifier)
    return {
        "caption": None if result is None else result.caption,
        "edited caption": None if result is None else result.edited_caption,
        "answer": (after.answer or None) if after is not None else None,
        "p source": None if before is None else before.score,
        "p counterfactual": None if after is None else after.score,
    }


def change(edit_type: str, removed: str, added: str) -> str:
    """Say a change in words."""
    words = f"{removed or '-'} → {added or '-'}" if removed or added else "various words"
    return f"{edit_type}: {words}"
