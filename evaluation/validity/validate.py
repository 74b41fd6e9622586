"""``make validate``: compare stress tests with rendered truth and write evaluation/results/validity.json.

    PYTHONPATH=demo python -m evaluation.validity --sources 400 --preset quick

Trains the classifiers that are missing, renders the truth, decides which bugs count as planted, runs one
stress test per seed over all classifiers, generates images from class names as a baseline and asks the
oracle about every image. The result file keeps the figures of the other presets. Finished pieces stay in
the state folder and are reused; the summary is computed again when the gateway's code has changed.
``--again`` reports on the newest finished run even if the suite's settings or weights have changed since.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from counterpose_miniature.training.stage import use_threads, write_atomically
from evaluation.validity.assembly import Pieces, report
from evaluation.validity.campaign import Campaign
from evaluation.validity.command import merged, order_of, parsed
from evaluation.validity.order import contestants
from evaluation.validity.report import PresetReport
from evaluation.validity.serving import STACK, serving


def measured(campaign: Campaign) -> PresetReport:
    """Make every piece, then the figures."""
    tested, summaries = campaign.tested, campaign.summaries
    return report(
        Pieces(
            order=campaign.order,
            entrants=campaign.entrants,
            scenes=campaign.scenes,
            truths=campaign.truths,
            bugs=campaign.bugs,
            runs={seed: one.run_id for seed, one in tested.items()},
            items={seed: one.items for seed, one in tested.items()},
            insights={seed: one.insights for seed, one in summaries.items()},
            seen=campaign.seen,
            seen_sources=campaign.seen_sources,
            labelled=campaign.labelled,
            seen_labelled=campaign.seen_labelled,
            text_filter=campaign.text_filter,
            drawn=campaign.drawn,
            seconds=campaign.seconds(),
        )
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write the result file and print each aim."""
    given = parsed(arguments)
    use_threads(given.threads)
    order = order_of(given)
    began = time.monotonic()
    entrants = contestants(order)
    with serving(order.state / STACK, order.models, given.url, given.port) as service:
        made = measured(Campaign(order, entrants, service))
    text = merged(given.out, order.preset, made).model_dump_json(indent=2)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(given.out, f"{text}\n".encode())
    for aim in made.aims:
        word = {True: "reached", False: "missed", None: "unknown"}[aim.met]
        sys.stdout.write(f"{word:8} {aim.name} ({aim.aim}): {aim.reached}\n")
    sys.stdout.write(f"{given.out} written in {time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    main()
