"""``python -m evaluation.costs``: draw inputs, measure what each costs, and print the worst ten.

It goes on where it stopped: each trial is a line of the file of the state. Exit code 1: an input cost more
than 2 s of a processor, 256 MiB above rest, or another's place.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tqdm import tqdm

from evaluation.costs.trials import GOES_ON, TRIALS, bench, measured

WORST = 10


def main() -> int:
    """Run trials until the time is over."""
    parser = argparse.ArgumentParser(prog="evaluation.costs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200.0, help="how long it runs")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial; each has the next")
    parser.add_argument(
        "--state", type=Path, required=True, help="file of the trials; those in it are not repeated"
    )
    parser.add_argument("--code", type=Path, help="another tree of sources, to measure that")
    parser.add_argument("--only", default="", help="the trials whose names have this")
    options = parser.parse_args()
    names = [name for name in TRIALS if options.only in name]
    rows = _rows(options.state)
    end = time.monotonic() + options.seconds
    progress = tqdm(unit=" trials", initial=len(rows))
    while time.monotonic() < end:
        # A new bench for each round and after what does not end: what one leaves behind is no other's cost.
        with tempfile.TemporaryDirectory() as folder, bench(Path(folder), options.code) as on:
            for _ in names:
                rows.append(measured(on, names[len(rows) % len(names)], options.seed + len(rows)).row())
                with options.state.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(rows[-1]) + "\n")
                progress.update()
                if rows[-1]["status"] == GOES_ON or time.monotonic() > end:
                    break
    progress.close()
    return _told(rows)


def _rows(state: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in state.read_text("utf-8").splitlines()] if state.exists() else []


def _told(rows: list[dict[str, object]]) -> int:
    worst = sorted(rows, key=lambda row: -float(str(row["excess"])))
    tqdm.write(f"{len(rows)} trials, the worst {WORST}:")
    for row in worst[:WORST]:
        cost = f"{row['seconds']} s, {row['mebibytes']} MiB{', others refused' if row['refused'] else ''}"
        sent = f"strength {row['strength']}, {row['sent_bytes']} bytes -> {row['status']}"
        tqdm.write(f"{row['excess']:>8} times: {row['trial']}, {sent}, {cost}")
    beyond = sum(float(str(row["excess"])) > 1 for row in rows)
    tqdm.write(f"{beyond} of {len(rows)} beyond 2 s, 256 MiB or a place")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
