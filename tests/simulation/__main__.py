"""Simulate many seeds and go on where an earlier call stopped, or play one seed again."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

import counterpose_gateway
from counterpose_core.blobs import digest
from evaluation.evidence.simulated_faults import RESULTS, SimulatedFaults, keep
from evaluation.paths import ROOT
from simulation.faults import POINTS
from simulation.simulating import Simulated, simulate

BUILD = ROOT / "build"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if no seed violates an invariant, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="simulate the seeds from 0 on, so many")
    parser.add_argument("--seed", type=int, help="play this one again")
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        return _told([simulate(given.seed)])
    kept = BUILD / f"simulated-{code()[:12]}.jsonl"
    all_of_them = list(_simulated(given.seeds, kept))
    if given.record:
        keep(_report(all_of_them))
    return _told(all_of_them)


def code() -> str:
    """Return the digest of what is simulated and of what simulates: another code has other results."""
    product = Path(counterpose_gateway.__file__).parent
    files = [*product.rglob("*.py"), *Path(__file__).parent.glob("*.py")]
    return digest("".join(digest(each.read_bytes()) for each in sorted(files)).encode())


def _simulated(seeds: int, kept: Path) -> Iterator[Simulated]:
    kept.parent.mkdir(exist_ok=True)
    lines = kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []
    known = {each["seed"]: Simulated(**each) for each in map(json.loads, lines)}
    with kept.open("a", encoding="utf-8") as file:
        for seed in tqdm(range(seeds), desc="seeds", disable=None):
            if seed not in known:
                known[seed] = simulate(seed)
                file.write(json.dumps(asdict(known[seed])) + "\n")
                file.flush()
            yield known[seed]


def _report(simulated: Sequence[Simulated]) -> SimulatedFaults:
    happened = sum((Counter(each.happened) for each in simulated), Counter())
    return SimulatedFaults(
        seeds=len(simulated),
        violations={each.seed: each.violation for each in simulated if each.violation is not None},
        hours=sum(each.seconds for each in simulated) / 3600,
        happened={point: happened[point] for point in POINTS},
    )


def _told(simulated: Sequence[Simulated]) -> int:
    wrong = [each for each in simulated if each.violation is not None]
    for each in wrong:
        sys.stdout.write(f"seed {each.seed}: {each.violation}\n")
    happened = sum(sum(each.happened.values()) for each in simulated)
    hours = sum(each.seconds for each in simulated) / 3600
    sys.stdout.write(
        f"{len(simulated)} seeds, {hours:.1f} simulated hours, {happened} faults: {len(wrong)} violations\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
