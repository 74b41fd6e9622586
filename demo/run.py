"""``make demo``: stress-test four classifiers on the miniature world and write report and summary."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from faultline import Client
from faultline._progress import follow
from stack import Stack

HERE = Path(__file__).resolve().parent
# One without a planted bug: what it loses, the generator and the editing cost, not the change.
CLASSIFIERS = ("unbiased-resnet", "leaning-resnet", "leaning-vit", "leaning-convnext")
SEED = 0


def stress_test(url: str, out: Path = HERE) -> None:
    """Run the demo's stress test and write what came of it."""
    with Client(url) as client:
        run = client.stress_tests.create(
            dataset="demo", classifiers=CLASSIFIERS, max_edits_per_image=5, seed=SEED
        )
        follow(run, quiet=False)
        summary = run.summary()
        text = summary.model_dump_json(indent=2, by_alias=True)
        (out / "summary.json").write_text(text + "\n", encoding="utf-8")
        (out / "report.html").write_text(run.report(), encoding="utf-8")
        sys.stdout.write(f"{summary}\n")
        # Written first: what an incomplete run did find is worth reading.
        if run.run.state != "completed":
            raise SystemExit(f"the run ended {run.run.state}: {summary.failed_codes}")


def main(stack: Stack | None = None, out: Path = HERE) -> None:
    """Start what does not run yet, run the demo, stop what was started."""
    stack = stack or Stack()
    seconds = stack.shown(lambda: stress_test(stack.url, out))
    sys.stdout.write(f"demo/report.html and demo/summary.json written in {seconds:.0f} s\n")


if __name__ == "__main__":
    main()
