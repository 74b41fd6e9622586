"""The page of simulated faults, from results/simulated-faults.json, which `make simulate` writes."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from evaluation.evidence.markdown import page, table
from evaluation.paths import ROOT

RESULTS = ROOT / "evaluation/results/simulated-faults.json"


class SimulatedFaults(BaseModel):
    """What came of many seeds: violations by seed, simulated hours, and how often each fault occurred."""

    seeds: int
    violations: dict[int, str]
    hours: float
    happened: dict[str, int]


def keep(report: SimulatedFaults, path: Path = RESULTS) -> None:
    """Write the report."""
    path.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")


def simulated_page(path: Path = RESULTS) -> str:
    """Write the page."""
    report = SimulatedFaults.model_validate_json(path.read_bytes())
    wrong, faults = len(report.violations), sum(report.happened.values())
    found = "none violated an invariant" if not wrong else f"{wrong} violated an invariant"
    finding = (
        f"Of {report.seeds:,} simulations, in which {faults:,} faults occurred over {report.hours:,.1f} "
        f"simulated hours, {found}."
    )
    body = table(("fault", "times"), [(name, f"{n:,}") for name, n in report.happened.items()])
    if wrong:
        rows = [(str(seed), what) for seed, what in report.violations.items()]
        body += ["", "## Violations", "", *table(("seed", "invariant"), rows)]
    return page("Simulated faults", finding, body, _HOW)


_HOW = (
    "- `make simulate SEEDS=2000 RECORD=1`, which goes on where it was stopped; `make simulate SEED=17`",
    "  plays one seed again, in the same order and at the same times.",
    "",
    "Each simulation has two clients, one gateway and three workers with two item groups each, in one thread",
    "on a virtual clock. The gateway's ledger, its planning, leases, renewals, records and event streams and",
    "the worker are the product's own code over a SQLite file; the editor, the network, the store's disk and",
    "the clock are simulated. After every call a judge reads the file by itself and holds it against what it",
    "was before: the accounting of every run, final states that stay as they are, images on the disk before",
    "their rows, results under the newest lease only, leases that only dead or stopped workers lose, at most",
    "three attempts, cancelled runs that take no more results, promised runs that exist, and events whose",
    "numbers grow. At the end every listener has got every event once. Seven defects put into the",
    "product's code are each found (`tests/integration/simulation/test_simulated_mutations.py`).",
)
