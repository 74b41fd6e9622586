"""``make validate``: hold stress tests against rendered truth and write demo/validity.json.

    PYTHONPATH=demo python tests/validity/validate.py --sources 400 --preset quick

Trains the classifiers that are missing, renders the truth, settles which bugs count as planted, runs one
stress test a seed over all classifiers, draws pictures of class names as a baseline, asks the oracle about
every picture and writes the figures of this preset beside those of others. Every finished piece is kept in
the state folder and not made again; the summary is asked for anew when the gateway's code has changed. With
``--again`` the newest finished run is reported on though the suite's settings or weights have changed since.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from faultline_miniature.training.stage import use_threads, write_atomically
from validation.assembly import Pieces, report
from validation.campaign import Campaign
from validation.command import merged, order_of, parsed
from validation.order import contestants
from validation.report import PresetReport
from validation.serving import STACK, serving


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
    """Validate, write, say what was reached."""
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
