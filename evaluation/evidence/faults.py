"""The page of faults, bad inputs and attacks: each id, what it means, and the tests that cover it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from evaluation.evidence.markdown import GENERATED, NONE, table, test_ids
from evaluation.evidence.markers import Covered
from evaluation.faults.results import FaultResults, IdResult
from evaluation.paths import RESULTS, ROOT

FAULTS = ROOT / "evaluation/faults.toml"
TITLES = {
    "faults": "Faults while Counterpose runs",
    "bad-inputs": "Bad inputs",
    "security": "Attacks and safeguards",
}


LATER = "later"


def known(file: Path = FAULTS) -> Mapping[str, Mapping[str, str]]:
    """Return each section's ids with their sentences."""
    return {section: ids for section, ids in _read(file).items() if section != LATER}


def left_to(file: Path = FAULTS) -> Mapping[str, str]:
    """Return what each id waits for that no test can cover yet, or only in part."""
    return _read(file).get(LATER, {})


def _read(file: Path) -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def read_results(folder: Path = RESULTS) -> Mapping[str, IdResult]:
    """Return what became of each id when its tests were last run by `make faults` or `make attacks`."""
    files = [file for name in ("faults", "attacks") if (file := folder / f"{name}.json").exists()]
    found = [FaultResults.model_validate_json(file.read_bytes()) for file in files]
    return {each.id: each for results in found for each in results.ids}


def page(covered: Covered, results: Mapping[str, IdResult]) -> str:
    """Write the page."""
    sections, later = known(), left_to()
    total = sum(len(ids) for ids in sections.values())
    tested = sum(name in covered for ids in sections.values() for name in ids)
    lines = [
        "# Faults, bad inputs and attacks",
        "",
        GENERATED,
        "",
        f"{tested} of {total} faults, bad inputs and attacks have at least one test; the others have none.",
    ]
    for section, ids in sections.items():
        rows = [
            (
                name,
                _with_reason(sentence, later.get(name)),
                _state(results.get(name)),
                test_ids(covered.get(name, ())),
            )
            for name, sentence in ids.items()
        ]
        lines += [
            "",
            f"## {TITLES[section]}",
            "",
            *table(("id", "fault and what must hold", "last run", "tests"), rows),
        ]
    lines += [
        "",
        "## How this is known",
        "",
        "`evaluation/faults.toml` lists the ids. A test names those it covers with `@pytest.mark.fault`, and",
        "`make evidence` collects them. An id may be covered only in part: the test's name says how far.",
        "",
        "- `make faults` and `make attacks` run the tests of every id, and keep what each came to in",
        "  `evaluation/results/faults.json` and `attacks.json`: passed if a test passed and none failed.",
    ]
    return "\n".join(lines) + "\n"


def _state(result: IdResult | None) -> str:
    if result is None or result.state in ("no test", "not run yet"):
        return NONE
    return result.state if result.why is None else f"{result.state}: {result.why}"


def _with_reason(sentence: str, waits_for: str | None) -> str:
    return sentence if waits_for is None else f"{sentence} Left to the issue of {waits_for}."
