"""Items and findings as pandas data frames; pandas is imported when a frame is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from counterpose_core.errors import InvalidRequest


def data_frame(rows: Iterable[BaseModel]) -> Any:
    """Return a ``pandas.DataFrame`` with one row per body; nested fields become columns ``outer.inner``.

    Raises:
        InvalidRequest: pandas is not installed.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise InvalidRequest(
            "to_pandas() needs pandas, which is not installed: pip install pandas"
        ) from error
    return pandas.json_normalize([row.model_dump(mode="json", by_alias=True) for row in rows])
