"""``counterpose gate`` and ``counterpose freeze``: may a candidate classifier take the incumbent's place."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer
from pydantic import ValidationError

from counterpose._cli.contract_options import LABEL_MAP, SEED, Fields, Option, request_options
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.follow import Output, serve_and_follow
from counterpose._cli.gate_markdown import gate_markdown
from counterpose._cli.groups import examples
from counterpose._cli.junit import gate_junit
from counterpose._cli.kinds import RunsOfKind
from counterpose._cli.options import AsJson, Classifiers, OneRun, Url
from counterpose._cli.outcomes import exit_for_gate
from counterpose._cli.tables import unless_empty
from counterpose._cli.terminal import connected, show, write_file
from counterpose._sync.client import Client
from counterpose_core.contract.gates import GateCreate, GateSummary, RegressionSet
from counterpose_core.contract.runs import Run
from counterpose_core.errors import InvalidRequest

Baseline = Annotated[
    str,
    typer.Option(
        metavar="RUN|FILE",
        help="An ended stress test or shift benchmark, or a file that `counterpose freeze` wrote.",
    ),
]
Incumbent = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", help="The classifier to compare with; default: the baseline's only classifier."
    ),
]
GateStrict = Annotated[
    bool, typer.Option("--strict", metavar="", help="Treat an inconclusive result as failed.")
]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML to this file.")]
Markdown = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the verdict and the cells as Markdown to this file."),
]
SetFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file to write, such as regression-set.json.")
]

CODES = (
    "Exit codes: 0 passed, 1 a regression is proven, 2 wrong usage, 3 incomplete, 4 refused, 5 inconclusive, "
    "130 interrupted."
)
EXAMPLES = (
    examples(
        "counterpose gate --baseline 3fa8 --classifier py:mymodel:predict --incumbent timm:resnet50",
        "counterpose gate --baseline regression-set.json --classifier local:new --junit gate.xml",
    )
    + f"\n\n{CODES}"
)
FREEZE_EXAMPLES = examples("counterpose freeze 3fa8 regression-set.json")


@request_options(GateCreate, LABEL_MAP, Option("tolerance", "SHARE"), SEED)
def gate(
    baseline: Baseline,
    classifier: Classifiers,
    *,
    incumbent: Incumbent = None,
    fields: Fields,
    strict: GateStrict = False,
    junit: JUnit = None,
    markdown: Markdown = None,
    output: Output,
    client: Client,
) -> None:
    """Compare candidates with the incumbent on the same counterfactuals: is any change a regression?

    The exit code, the printed verdict and the JUnit file say the same.
    """
    output.check(junit, markdown)
    frozen = baseline_of(client, baseline)
    serve_and_follow(
        client,
        [*classifier, *([] if incumbent is None else [incumbent])],
        lambda specs: client.gates.create(
            baseline=frozen,
            classifiers=specs[: len(classifier)],
            incumbent=None if incumbent is None else specs[-1],
            **fields,
        ),
        output,
        judge=partial(judge_gate, strict=strict),
        write=partial(_write, junit=junit, markdown=markdown),
    )


def freeze(run: OneRun, file: SetFile, as_json: AsJson = False, url: Url = None) -> None:
    """Write the digest of a run's counterfactuals to a file, so that a gate compares no others."""
    with connected(url) as client:
        if file.exists():
            # One that freezes the run again may be replaced, anything else is not ours.
            baseline_of(client, str(file))
        found = client.gates.freeze(client.runs.get(run).id)
        write_file(file, found.model_dump_json(indent=2) + "\n")
        compare = f"counterpose gate --baseline {quote(str(file))} --classifier NEW"
        show(found, f"{found}\nnext, compare another classifier: {compare}", as_json)


def judge_gate(summary: GateSummary, *, strict: bool = False) -> ExitCode:
    """Return the exit code of a gate."""
    return exit_for_gate(summary.outcome, strict=strict)


def baseline_of(client: Client, baseline: str) -> str | RegressionSet:
    """Read a file that holds a frozen set, or return the id of a run."""
    path = Path(baseline)
    if not path.is_file():
        if path.suffix:
            raise InvalidRequest(
                f"there is no file {baseline!r}; `counterpose freeze RUN {baseline}` writes one"
            )
        return client.runs.get(baseline).id
    try:
        return RegressionSet.model_validate_json(path.read_bytes())
    except (ValidationError, OSError) as error:
        raise InvalidRequest(
            f"{baseline!r} is no regression set; `counterpose freeze RUN NEW_FILE` writes one"
        ) from error


def _write(summary: GateSummary, _: ExitCode, *, junit: Path | None, markdown: Path | None) -> None:
    if junit is not None:
        write_file(junit, gate_junit(summary))
    if markdown is not None:
        write_file(markdown, gate_markdown(summary))


def gate_text(summary: GateSummary) -> str:
    """The verdict, each candidate under each change, and the cost."""
    header = ("candidate", "change", "state", "regression", "incumbent errs", "p (Holm)", "left out")
    rows = [
        (
            each.classifier, each.name, each.state, each.regression, each.incumbent,
            None if each.p_adjusted is None else f"{each.p_adjusted:.3g}",
            f"{each.left_out} of {each.pairs}",
        )
        for each in summary.cells
    ]  # fmt: skip
    unread = [f"{name} could not answer {count} pairs" for name, count in summary.unanswered.items()]
    return "\n".join(
        [
            summary.verdict,
            "",
            *unless_empty(header, rows),
            *unread,
            *(f"failed items: {code}: {count}" for code, count in summary.failed_codes.items()),
            f"baseline: {summary.config.regression_set.contents}",
            f"cost: {summary.cost}",
            *summary.config.notes,
        ]
    )


def _instead(run: Run) -> str:
    baseline = run.resolved_config["request"]["baseline"]
    return f"`counterpose export {baseline}` exports the counterfactuals that it compares"


RUNS = RunsOfKind(
    text=gate_text,
    judge=judge_gate,
    command=gate,
    submitted=examples(
        "counterpose submit gate --cluster gpus --workers 8 --baseline 3fa8 --classifier local:new"
    )
    + f"\n\n{CODES}",
    instead=_instead,
)
