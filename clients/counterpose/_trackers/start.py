"""What logging to any tracker begins with: a run that has ended, and the tracker's own package."""

from __future__ import annotations

import importlib
from typing import Any

from counterpose._sync.run_handle import RunHandle
from counterpose_core.errors import InvalidRequest, RunNotEnded


def require_ended(run: RunHandle[Any, Any]) -> None:
    """Look at a run anew, and raise `RunNotEnded` if it goes on."""
    if not run.refresh().ended:
        raise RunNotEnded(f"run {run.id!r} is {run.run.state}; wait for it before it is logged")


def package(name: str) -> Any:
    """Import a tracker's package; raises `InvalidRequest` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidRequest(
            f"log_to_{name}() needs {name}, which is not installed: pip install {name}"
        ) from error
