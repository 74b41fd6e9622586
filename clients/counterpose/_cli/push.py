"""``counterpose push``: exports and figures to the Hugging Face Hub."""

from __future__ import annotations

import json
from typing import Annotated, cast

import typer

from counterpose._cli.groups import examples, group
from counterpose._cli.options import AsJson, OneRun, Url
from counterpose._cli.terminal import connected, print_result
from counterpose._exports import ExportLayout
from counterpose._hub.datasets import SHARDED, push_to_hub
from counterpose._hub.results import push_results_to_hub
from counterpose._sync.run_handle import ExportedRun
from counterpose_core.errors import InvalidRequest

Repository = Annotated[
    str, typer.Argument(metavar="REPOSITORY", help="The repository on the Hub, as organisation/name.")
]
Layout = Annotated[str, typer.Option(metavar="LAYOUT", help=f"{' or '.join(SHARDED)}.")]
Dropped = Annotated[bool, typer.Option("--dropped", metavar="", help="Include images that a filter dropped.")]
Public = Annotated[bool, typer.Option("--public", metavar="", help="Let everyone see a new repository.")]
PullRequest = Annotated[
    bool, typer.Option("--pull-request", metavar="", help="Propose the files instead of writing them.")
]
Replace = Annotated[
    bool, typer.Option("--replace", metavar="", help="Replace what is there and is not from Counterpose.")
]
NewNumbers = Annotated[
    bool,
    typer.Option("--replace", metavar="", help="Propose new numbers for figures that the card has already."),
]
Classifier = Annotated[
    str | None, typer.Option(metavar="SPEC", help="The run's classifier whose model the repository holds.")
]
DatasetRepository = Annotated[
    str | None,
    typer.Option("--dataset-repository", metavar="REPOSITORY", help="Where the run's images were pushed to."),
]

app = group("Push images and figures to the Hugging Face Hub, with the token in HF_TOKEN.")


@app.command(epilog=examples("counterpose push dataset @last my-org/pets-counterfactuals"))
def dataset(
    run: OneRun,
    repository: Repository,
    layout: Layout = "parquet",
    dropped: Dropped = False,
    public: Public = False,
    pull_request: PullRequest = False,
    replace: Replace = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Push a run's images with provenance and card to a dataset repository, in one commit."""
    with connected(url) as client:
        found = client.runs.get(run)
        if not isinstance(found, ExportedRun):
            raise InvalidRequest(f"run {run!r} is a {found.run.kind}, which exports no images")
        pushed = push_to_hub(
            found,
            repository,
            layout=cast("ExportLayout", layout),
            dropped=dropped,
            private=not public,
            create_pr=pull_request,
            replace=replace,
        )
        print_result(json.dumps({"pushed": pushed}) if as_json else pushed)


@app.command(epilog=examples("counterpose push results @last my-org/resnet --classifier timm:resnet50"))
def results(
    run: OneRun,
    repository: Repository,
    classifier: Classifier = None,
    dataset_repository: DatasetRepository = None,
    replace: NewNumbers = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Propose a run's figures, each with n and interval, to the repository of the model that was tested."""
    with connected(url) as client:
        proposed = push_results_to_hub(
            client.runs.get(run),
            repository,
            classifier=classifier,
            dataset_repo=dataset_repository,
            replace=replace,
        )
        print_result(json.dumps({"pull_request": proposed}) if as_json else proposed)
