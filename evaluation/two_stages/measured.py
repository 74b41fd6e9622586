"""Writes the facts that reports print beside a suspicion: ``python -m evaluation.two_stages.measured``."""

from __future__ import annotations

import sys
from pathlib import Path

from counterpose_core.types import Estimate
from evaluation.paths import ROOT
from evaluation.two_stages.report import FindingsValidity

RESULT = ROOT / "evaluation/results/findings-validity.json"
MODULE = ROOT / "gateway/counterpose_gateway/methods/stress_test/summary/measured.py"
DIGITS = 3
_HEAD, _TAIL = "SUSPECTED: Estimate | None = ", "\n"


def suspected_precision(made: FindingsValidity) -> Estimate | None:
    """The share of suspicions that are true, over all runs; None without any."""
    return made.suspected if made.suspected.estimate is not None else None


def written(text: str, found: Estimate | None) -> str:
    """The module's text with the figure in place of the one that it has.

    Raises:
        ValueError: the module has no line for the figure.
    """
    lines = text.splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith(_HEAD)]
    if len(places) != 1:
        raise ValueError(f"{MODULE.name} has {len(places)} lines that begin {_HEAD!r}, not one")
    lines[places[0]] = _HEAD + ("None" if found is None else _source(found))
    return "\n".join(lines) + _TAIL


def _source(found: Estimate) -> str:
    ends = {"estimate": found.estimate, "low": found.low, "high": found.high}
    fields = ", ".join(f"{name}={round(value, DIGITS)}" for name, value in ends.items() if value is not None)
    return f"Estimate({fields}, n={found.n})"


def main(result: Path = RESULT, module: Path = MODULE) -> None:
    """Write the module from the result file."""
    made = FindingsValidity.model_validate_json(result.read_bytes())
    found = suspected_precision(made)
    module.write_text(written(module.read_text(encoding="utf-8"), found), encoding="utf-8")
    sys.stdout.write(f"{module.relative_to(ROOT)}: {found}\n")


if __name__ == "__main__":
    main()
