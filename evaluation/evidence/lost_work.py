"""The page about what a kill at half-way costs, from results/lost-work.json, which the fault tests write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, TypeAdapter

from evaluation.evidence.markdown import NONE, page, table
from evaluation.paths import ROOT

RESULTS = ROOT / "evaluation/results/lost-work.json"
ITEMS = 200
HEAD = (
    "200 items by",
    "killed at half-way",
    "ended by then",
    "of these lost",
    "in hand, done again",
    "attempts",
)


class Kill(BaseModel):
    """What one kill cost: items that had ended by then, those of them lost, and leases beyond the first."""

    by: str
    killed: str
    ended: int
    lost: int
    again: int
    attempts: int | None = None


_KILLS = TypeAdapter(list[Kill])


def read_kills(path: Path = RESULTS) -> list[Kill]:
    """Return the recorded kills."""
    return _KILLS.validate_json(path.read_bytes())


def keep(kills: Iterable[Kill], path: Path = RESULTS) -> None:
    """Write kills down; of what was killed before, the newest is kept."""
    known = {(kill.by, kill.killed): kill for kill in (read_kills(path) if path.exists() else [])}
    known |= {(kill.by, kill.killed): kill for kill in kills}
    path.write_bytes(_KILLS.dump_json(list(known.values()), indent=2) + b"\n")


HOW = (
    "- `make cluster-faults ONLY='ray_jobs or lost_work' RECORD=1`: one kill a row (n = 1 each)",
    "",
    "The run is a stress test of 40 images by the fake services of the tests, over PostgreSQL and one store.",
    "A Ray job has two workers, on a head without CPUs and two nodes, all on one machine of two",
    "cores. Each worker has four groups of five items in hand. After each",
    "kill the audit of the ledger is green, each item is there once, and the results equal those of a run",
    "that nobody kills: all but which services a group asked, their seconds and costs. What was in hand is",
    "done again; a worker that is asked to stop, as when its actor is killed, gives it back first.",
)


def lost_work_page(kills: Sequence[Kill] | None = None) -> str:
    """Return the page."""
    kills = read_kills() if kills is None else kills
    loops = [kill for kill in kills if kill.lost]
    whole, lost = len(kills) - len(loops), sum(kill.lost for kill in loops)
    finding = (
        f"Workers and Ray jobs, killed at half-way of {ITEMS} items, lost nothing that had ended ({whole} "
        f"kills); a plain loop, which writes its results at the end, lost all {lost}."
    )
    rows = [
        (
            kill.by, kill.killed, str(kill.ended), str(kill.lost), str(kill.again),
            NONE if kill.attempts is None else str(kill.attempts),
        )
        for kill in kills
    ]  # fmt: skip
    return page("What a kill at half-way costs", finding, table(HEAD, rows), HOW)
