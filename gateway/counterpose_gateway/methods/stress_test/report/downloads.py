"""What a report hands on: its findings as CSV, and its first screen as Markdown for a pull request."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.commands import next_step
from counterpose_core.contract.findings import Finding, by
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transforms import ClassFinding, OperationFigure
from counterpose_core.text.plain_text import no_formula
from counterpose_gateway.methods.stress_test.report.tables import model_rows
from counterpose_gateway.reports.states import BADGES

_COLUMNS = (
    "number", "state", "classifier", "class", "edit_type", "removed", "added", "taken_for", "flipped", "of",
    "screened_loss", "confirmed_loss", "confirmed_low", "confirmed_high", "p_adjusted", "sentence", "level",
    "backend",
)  # fmt: skip


@dataclass(frozen=True)
class Download:
    """A file inside the report: its name, and its content as a data URI."""

    name: str
    uri: str


def downloads(summary: StressTestSummary, findings: Sequence[Finding]) -> list[Download]:
    """``findings.csv`` and ``report.md``."""
    operations = () if summary.transforms is None else summary.transforms.findings
    return [
        _download("findings.csv", "text/csv", findings_csv(findings, operations)),
        _download("report.md", "text/markdown", report_md(summary, findings)),
    ]


def _download(name: str, media: str, text: str) -> Download:
    data = base64.b64encode(text.encode()).decode("ascii")
    return Download(name, f"data:{media};charset=utf-8;base64,{data}")


def findings_csv(
    findings: Sequence[Finding], operations: Sequence[OperationFigure | ClassFinding] = ()
) -> str:
    """One line a finding; an operation, which was not chosen by a screen, has its loss as confirmed."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for finding in findings:
        tested = finding.confirmed
        figures = (
            ("", "", "", "")
            if tested is None
            else (tested.loss.estimate, tested.loss.low, tested.loss.high, tested.p_adjusted)
        )
        writer.writerow(
            [
                finding.number,
                finding.state,
                *map(
                    no_formula,
                    (
                        finding.classifier,
                        finding.object_class,
                        finding.edit_type,
                        finding.removed,
                        finding.added,
                        finding.taken_for or "",
                    ),
                ),
                finding.flipped,
                finding.of,
                round(finding.screened.loss, 4),
                *figures,
                *map(no_formula, (finding.sentence, "", finding.backend or "")),
            ]
        )
    for each in operations:
        told, loss = each.headline, each.headline.loss
        named = map(no_formula, (each.classifier, each.object_class, each.operation, "", "", ""))
        own = ("", loss.estimate, loss.low, loss.high, "")
        last = (no_formula(each.sentence), told.level, each.backend or "")
        writer.writerow([each.number, each.state, *named, told.lost, each.images, *own, *last])
    return buffer.getvalue()


def report_md(summary: StressTestSummary, findings: Sequence[Finding]) -> str:
    """The headline, the models with their verdicts, and the findings that are more than hints.

    Each finding names the command that would settle it, or else show it in every image.
    """
    lines = summary.verdict.splitlines()
    told = summary.transforms
    states = ("breaks", "suspected")
    operations = [] if told is None else [each for each in told.findings if each.state in states]
    parts = [
        f"# {_plain(lines[0])}",
        "",
        *(line for told in summary.warnings for line in (_plain(told), "")),
        f"Stress test of {_plain(summary.dataset)}, run `{summary.run_id}`.",
        "",
    ]
    rest: list[str] = []
    if summary.verdicts and summary.models:
        rest = lines[len(summary.verdicts) + 1 :]
        parts += ["| Model | Verdict | Why | Right before → after |", "| --- | --- | --- | --- |"]
        parts += [
            f"| {_plain(row.name)} | {row.badge} | {_plain(row.sentence)} | {row.right} |"
            for row in model_rows(summary)
        ]
    else:
        parts += [f"- {_plain(line)}" for line in lines[1:]]
    shown = [finding for finding in findings if finding.state in states]
    if shown or operations:
        parts += ["", "## Findings", ""]
        for one in shown:
            step = next_step(summary, one)
            after = f" {_plain(step.title)}: `{step.command}`" if step else ""
            by_edits = _plain(by(one.backend))
            parts.append(f"{one.number}. {BADGES[one.state]}{by_edits}: {_plain(one.sentence)}{after}")
        for figure in operations:
            state = f"{BADGES[figure.state]}{by(figure.backend)}"
            parts.append(f"{figure.number}. {state}: {_plain(figure.sentence)}")
        parts += ["", *map(_plain, rest)]
    return "\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Text without the characters that Markdown reads as markup."""
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return text
