"""``counterpose transfer``: show images that fool some classifiers to others."""

from __future__ import annotations

from typing import Annotated

import typer

from counterpose._cli.bug_hunt import criterion_named
from counterpose._cli.classifiers import reachable
from counterpose._cli.follow import Output, create_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.options import AsJson, Classifiers, Detach, OneRun, Report, Seed, Url
from counterpose._cli.tables import transfer_text
from counterpose._cli.terminal import connected

SourceCriterion = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What counts as a failure, as for `counterpose bug-hunt`; default: the run's own.",
    ),
]
Images = Annotated[int, typer.Option(metavar="N", help="Most images of each classifier of the run.")]

EXAMPLES = examples(
    "counterpose transfer 3fa8 --classifier leaning-resnet --classifier unbiased-resnet --report matrix.html",
    codes=True,
)


def transfer(
    run: OneRun,
    classifier: Classifiers,
    criterion: SourceCriterion = None,
    images: Images = 2000,
    seed: Seed = 0,
    report: Report = None,
    detach: Detach = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Show images that fool the classifiers of a run to others (Wiles et al.)."""
    with connected(url) as client:
        output = Output(report=report, detach=detach, as_json=as_json)
        specs = reachable(client, classifier, detach=detach)
        create_and_follow(
            lambda: client.transfers.create(
                source=client.runs.get(run).id,
                classifiers=specs,
                criterion=None if criterion is None else criterion_named(criterion),
                images=images,
                seed=seed,
            ),
            transfer_text,
            output,
            serves_function=specs != classifier,
        )
