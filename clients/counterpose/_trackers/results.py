"""A run's finished items as one parquet file, a row each."""

from __future__ import annotations

import importlib
from itertools import islice
from pathlib import Path
from typing import Any

from counterpose._sync.run_handle import RunHandle
from counterpose_core.contract.runs import RunItem
from counterpose_core.errors import InvalidRequest
from counterpose_core.installation import adding

RESULTS = "results.parquet"
BATCH = 1000
"""Rows that are held at once."""
_TEXTS = (
    "id", "kind", "item_group", "label", "edit_type", "state", "reason", "code", "source_image", "image",
    "caption", "edited_caption",
)  # fmt: skip
_NUMBERS = ("ordinal", "slot", "stage")


def parquet() -> Any:
    """Return pyarrow with its parquet part.

    Raises:
        InvalidRequest: it is not installed.
    """
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise InvalidRequest(
            f"the results as parquet need pyarrow, which is not installed: {adding('mlflow')}"
        ) from error


def write_results(run: RunHandle[Any, Any], path: Path) -> Path:
    """Write the finished items of a run of any kind.

    A row has the item's fields, the score by classifier after and before the change (``score``,
    ``score_before``), and all that the item produced as JSON (``result``). Images are named by digest.

    Raises:
        InvalidRequest: pyarrow is not installed.
        BadBackendOutput: the results do not match their checksum.
    """
    arrow = parquet()
    schema = _schema(arrow)
    items = run.results()
    with arrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while rows := [_row(item) for item in islice(items, BATCH)]:
            writer.write_table(arrow.Table.from_pylist(rows, schema))
    return path


def _schema(arrow: Any) -> Any:
    probabilities = arrow.map_(arrow.string(), arrow.float64())
    return arrow.schema(
        [
            *((name, arrow.string()) for name in _TEXTS),
            *((name, arrow.int64()) for name in _NUMBERS),
            ("score", probabilities),
            ("score_before", probabilities),
            ("result", arrow.string()),
        ]
    )


def _row(item: RunItem[Any]) -> dict[str, Any]:
    result = item.result
    row = {name: getattr(item, name, None) for name in (*_TEXTS, *_NUMBERS)}
    for name in ("image", "caption", "edited_caption"):
        row[name] = getattr(result, name, None)
    return row | {
        "score": _probabilities(result, "predictions"),
        "score_before": _probabilities(result, "original_predictions"),
        "result": None if result is None else result.model_dump_json(by_alias=True),
    }


def _probabilities(result: Any, of: str) -> list[tuple[str, float]]:
    predictions: dict[str, Any] = getattr(result, of, None) or {}
    return [(name, each.score) for name, each in predictions.items() if hasattr(each, "score")]
