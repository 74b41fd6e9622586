"""Run the tests of faults or of attacks, and write `results/faults.json` or `results/attacks.json`.

Outcomes are kept in build/ as they come: what has passed is not run again, unless asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evaluation.evidence.faults import known, left_to
from evaluation.evidence.markers import Covered, markers
from evaluation.faults.recorder import FILE
from evaluation.faults.results import (
    FaultResults,
    Outcome,
    TestOutcome,
    counted,
    function_of,
    outcome_of,
    result_of,
)
from evaluation.paths import RESULTS, ROOT

SECTIONS: Mapping[str, tuple[str, ...]] = {"faults": ("faults",), "attacks": ("security", "bad-inputs")}
KEPT = ROOT / "build/fault-outcomes.jsonl"
PARTS = (
    "tests/unit", "evaluation/tests", "tests/integration/gateway", "tests/integration/simulation",
    "tests/integration/engines", "tests/integration/clients", "tests/integration", "tests/contract",
    "tests/vllm_server", "tests/faults",
)  # fmt: skip
"""One process each, the quick ones first."""
_SETTINGS = {"CONTRACT_CASES": "20", "FAILING_WRITES": "200", "RAY_worker_niceness": "0"}
"""Of the tests' processes, unless the caller has set them: Ray's workers are patient by default."""

Cases = Mapping[str, Mapping[str, tuple[Outcome, str | None]]]
"""Outcomes by test function and case."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a test failed, 0 otherwise."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("what", choices=SECTIONS)
    parser.add_argument("--only", default="", help="only these ids, separated by commas")
    parser.add_argument("--parts", default="", help=f"only tests below these folders: {', '.join(PARTS)}")
    parser.add_argument("--again", action="store_true", help="run again what has passed")
    parser.add_argument("--collect", action="store_true", help="run nothing; write what is known")
    given = parser.parse_args(arguments)
    covered, only = markers().fault, set(filter(None, given.only.split(",")))
    ids = {name: what for section in SECTIONS[given.what] for name, what in known()[section].items()}
    wanted = {test for name in ids if not only or name in only for test in covered.get(name, ())}
    parts = set(filter(None, given.parts.split(","))) or set(PARTS)
    if not given.collect:
        passed = set() if given.again else {test for test, cases in kept().items() if _passed(cases)}
        _run(sorted(wanted - passed), parts)
    results = _results(ids, covered)
    file = RESULTS / f"{given.what}.json"
    file.write_text(results.model_dump_json(indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(
        f"{file.relative_to(ROOT)}: {', '.join(f'{n} {s}' for s, n in counted(results).items())}\n"
    )
    for each in results.ids:
        if each.state != "passed":
            sys.stdout.write(f"{each.id} {each.state}{f': {each.why}' if each.why else ''}\n")
    return 1 if results.of("failed") else 0


def kept(file: Path = KEPT) -> Cases:
    """Return the newest outcome of each case."""
    found: dict[str, dict[str, tuple[Outcome, str | None]]] = defaultdict(dict)
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        row = json.loads(line)
        found[function_of(row["test"])][row["test"]] = row["outcome"], row["why"]
    return found


def part_of(test: str) -> str:
    """Return the part that a test belongs to: the first folder of `PARTS` that it is below."""
    return next(part for part in PARTS if test.startswith(f"{part}/"))


def cannot_run(part: str) -> str | None:
    """Return why the tests of a part cannot run on this machine, or None."""
    if part == "tests/vllm_server" and not (ROOT / ".venv-vllm").is_dir():
        return "needs vLLM's environment of 3.5 GB (`make vllm`)"
    if part == "tests/contract" and shutil.which("openapi-python-client", path=str(_bin())) is None:
        return "needs the generator of clients (`make install`)"
    return None


def _bin() -> Path:
    return Path(sys.executable).parent


def _passed(cases: Mapping[str, tuple[Outcome, str | None]]) -> bool:
    return all(outcome == "passed" for outcome, _ in cases.values())


def _run(tests: Iterable[str], parts: Iterable[str]) -> None:
    by_part: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        by_part[part_of(test)].append(test)
    KEPT.parent.mkdir(exist_ok=True)
    for part in PARTS:
        if part in parts and by_part[part] and cannot_run(part) is None:
            options = ["-q", "-p", "evaluation.faults.recorder", "--no-header", "--tb=short"]
            command = [sys.executable, "-m", "pytest", *options, *by_part[part]]
            environment = _SETTINGS | os.environ | {FILE: str(KEPT), "OMP_NUM_THREADS": "1"}
            subprocess.run(command, cwd=ROOT, env=environment, check=False)


def _results(ids: Mapping[str, str], covered: Covered) -> FaultResults:
    cases, later = kept(), left_to()

    def outcome(test: str) -> TestOutcome:
        return outcome_of(test, cases.get(test, {}).values(), cannot_run(part_of(test)))

    found = [
        result_of(name, what, [outcome(test) for test in covered.get(name, ())], later.get(name))
        for name, what in ids.items()
    ]
    head = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return FaultResults(commit=head.stdout.strip(), ids=tuple(found))


if __name__ == "__main__":
    sys.exit(main())
