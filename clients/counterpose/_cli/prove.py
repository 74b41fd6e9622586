"""``counterpose prove``: more images for one finding of a run, in a run of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from counterpose._cli import completion
from counterpose._cli.contract_options import Fields, Option, request_options
from counterpose._cli.datasets import dataset_name
from counterpose._cli.follow import Output, create_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.options import FindingNumber, OneRun
from counterpose._cli.terminal import print_note
from counterpose._sync.client import Client
from counterpose._sync.stress_tests import StressTest
from counterpose_core.contract.proofs import ProofCreate
from counterpose_core.contract.stress_tests import StressTestSummary

MoreImages = Annotated[
    str | None,
    typer.Option(
        metavar="DATASET",
        help="Take them from this dataset, or from a folder with one subfolder per class; "
        "default: the run's dataset.",
        autocompletion=completion.datasets,
    ),
]

EXAMPLES = examples(
    "counterpose prove --finding 1",
    "counterpose prove 3fa8 --finding 2 --images 40 --dataset more-photos/",
    codes=True,
)


@request_options(ProofCreate, Option("images", "N"), Option("seed", "N"))
def prove(
    finding: FindingNumber,
    fields: Fields,
    *,
    run: OneRun = "@last",
    dataset: MoreImages = None,
    output: Output,
    client: Client,
) -> None:
    """Test one finding of a run on more images; repeat it as often as you like.

    The run stays as it is: its pairs and those of every proof count together.
    """
    # Checked before a folder is uploaded: a mistake must leave nothing behind.
    ProofCreate.model_validate(fields)

    def create() -> StressTest:
        found = client.runs.get(run, kind="stress-test")
        assert isinstance(found, StressTest)
        where = None if dataset is None else dataset_name(client, dataset)
        return found.prove(finding, dataset=where, **fields)

    create_and_follow(create, output, render=_joined)


def _joined(summary: StressTestSummary) -> str:
    """The joined finding in one line; what it rests on goes to standard error."""
    verdict, (_, _, *evidence) = summary.verdicts[0], summary.verdict.splitlines()
    print_note("\n".join(evidence))
    return f"{verdict.state}: {verdict.sentence}"
