"""``counterpose compare-editors``: presets of the suite's editor on your own images, and one report."""

from __future__ import annotations

from typing import Annotated

import typer

from counterpose._cli import completion
from counterpose._cli.classifiers import reachable
from counterpose._cli.contract_options import SEED, Fields, Option, request_options
from counterpose._cli.datasets import UNRESOLVED, dataset_name, require_images
from counterpose._cli.groups import examples
from counterpose._cli.options import AsJson, Classifiers, Dataset, Report
from counterpose._cli.spending import SPENDING
from counterpose._cli.stack import require_suite
from counterpose._cli.stress_test import Anyway, SuiteOfRun
from counterpose._cli.terminal import check_writable, print_note, show, write_report
from counterpose._editor_comparison import distinct_presets
from counterpose._sync.client import Client
from counterpose._sync.stress_tests import StressTest
from counterpose_core.contract.interventions import interventions_of
from counterpose_core.contract.stress_tests import StressTestCreate

EXAMPLES = examples(
    "counterpose compare-editors demo --preset quick --preset direct --classifier leaning-resnet --limit 8 "
    "--report editors.html",
)
Presets = Annotated[
    list[str],
    typer.Option(
        "--preset",
        metavar="NAME",
        help="A preset of the suite's editor, such as quick; at least two. Repeatable.",
        autocompletion=completion.presets,
    ),
]


@request_options(
    StressTestCreate,
    Option(
        "interventions",
        "EDIT",
        "--edit",
        "As '=>in the snow'; with --max-edits-per-image 0 no other edit is made",
        read=interventions_of,
    ),
    Option("max_edits_per_image", "N"),
    Option("limit", "N"),
    *SPENDING,
    Option("region", "WHERE"),
    SEED,
)
def compare_editors(
    dataset: Dataset,
    preset: Presets,
    classifier: Classifiers,
    fields: Fields,
    *,
    suite: SuiteOfRun = None,
    anyway: Anyway = False,
    report: Report = None,
    as_json: AsJson = False,
    client: Client,
) -> None:
    """Compare editors on equal edits of your images: what each keeps, moves and costs.

    Each preset has a run of its own, and a budget bounds each run. After an interruption, the same command
    takes up the runs that it started; another seed begins anew.
    """
    # Checked before a folder is uploaded: a mistake must leave nothing behind.
    check_writable(report)
    presets = distinct_presets(preset)
    settings = {**fields, "outside_suite": "continue" if anyway else "stop"}
    request = StressTestCreate.model_validate({"dataset": UNRESOLVED, "classifiers": classifier, **settings})
    require_images(dataset)
    require_suite(suite, client.address)
    specs = reachable(client, classifier, detach=False)
    if request.spending is not None and (budget := request.spending.of_runs(len(presets))):
        print_note(f"a budget of {budget}")
    comparison = client.stress_tests.compare_editors(
        dataset=dataset_name(client, dataset),
        classifiers=specs,
        presets=presets,
        started=_note_start,
        taken_up=_note_resumption,
        progress=not as_json,
        **settings,
    )
    show(comparison, str(comparison), as_json)
    if report is not None:
        write_report(report, comparison.to_html())


def _note_start(run: StressTest) -> None:
    preset = run.run.resolved_config["request"]["preset"]
    print_note(f"run {run.id} of {preset}; watch: {run.page}")


def _note_resumption(handle: StressTest) -> None:
    run, preset = handle.run, handle.run.resolved_config["request"]["preset"]
    resumed = " and is resumed" if run.state in ("failed", "cancelling", "cancelled") else ""
    print_note(
        f"run {run.id} of {preset} is taken up: the same command began it at {run.created_at:%Y-%m-%d %H:%M}"
        f" UTC; it is {run.state}{resumed}; watch: {handle.page}"
    )
