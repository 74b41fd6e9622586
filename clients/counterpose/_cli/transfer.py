"""``counterpose transfer``: show images that fool some classifiers to others."""

from __future__ import annotations

from counterpose._cli.bug_hunt import criterion_named
from counterpose._cli.contract_options import LABEL_MAP, SEED, Fields, Option, request_options
from counterpose._cli.follow import Output, serve_and_follow
from counterpose._cli.groups import examples
from counterpose._cli.kinds import RunsOfKind, judged_by
from counterpose._cli.options import Classifiers, OneRun
from counterpose._cli.tables import unless_empty
from counterpose._sync.client import Client
from counterpose_core.contract.runs import Run
from counterpose_core.contract.transfers import TransferCell, TransferCreate, TransferSummary

EXAMPLES = examples(
    "counterpose transfer 3fa8 --classifier leaning-resnet --classifier unbiased-resnet --report matrix.html",
    codes=True,
)


@request_options(
    TransferCreate,
    LABEL_MAP,
    Option("criterion", "NAME", more="As for `counterpose bug-hunt`", read=criterion_named),
    Option("images", "N"),
    SEED,
)
def transfer(run: OneRun, classifier: Classifiers, fields: Fields, output: Output, client: Client) -> None:
    """Show images that fool the classifiers of a run to others (Wiles et al.)."""
    serve_and_follow(
        client,
        classifier,
        lambda specs: client.transfers.create(source=client.runs.get(run).id, classifiers=specs, **fields),
        output,
    )


def transfer_text(summary: TransferSummary) -> str:
    """The verdict, the matrix, each cell beside the labels alone, and the cost."""
    header = ("images that fool", "shown to", "failure rate", "labels alone", "p (Holm)")
    rows = [(each.row, each.column, each.rate, each.baseline, _holm(each)) for each in summary.cells]
    unread = [f"{name} could not read {count} images" for name, count in summary.unanswered.items()]
    return "\n".join(
        [
            summary.verdict,
            "",
            *unless_empty(header, rows),
            *unread,
            *(f"failed items: {code}: {count}" for code, count in summary.failed_codes.items()),
            f"cost: {summary.cost}",
            *summary.config.notes,
        ]
    )


def _holm(cell: TransferCell) -> str | None:
    if cell.by_choice:
        return "chosen by it"
    return None if cell.p_adjusted is None else f"{cell.p_adjusted:.3g}"


def _says_something(summary: TransferSummary) -> bool:
    return any(cell.rate.n for cell in summary.cells)


def _instead(run: Run) -> str:
    source, kind = run.resolved_config["request"]["source"], run.resolved_config["source_kind"]
    if kind == "adversarial-dataset":
        return f"`counterpose export {source}` exports those that it shows"
    return (
        f"it shows those of a {kind}; `counterpose adversarial-dataset --hunt {source}` makes images "
        "that can be exported"
    )


RUNS = RunsOfKind(text=transfer_text, judge=judged_by(_says_something), instead=_instead)
