"""A run that says nothing of a classifier ends its command as inconclusive, never as passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from counterpose import Client
from counterpose._cli import demo
from counterpose._cli.exit_code import ExitCode
from counterpose._cli.kinds import runs_of
from counterpose_core.contract.adversarial_dataset_summary import AdversarialDatasetSummary
from counterpose_core.contract.bug_hunt_summary import Bug, BugHuntSummary, HypothesisResult, MixtureRate
from counterpose_core.contract.findings import ClassifierVerdict
from counterpose_core.contract.stress_tests import StressTestSummary
from counterpose_core.contract.transfers import TransferCell, TransferSummary
from counterpose_core.types import Estimate
from fakes.benchmark_answers import a_benchmark_summary, a_shift, an_image_source, prompt_rows
from fakes.command import Play, run
from fakes.hunt_answers import a_hunt_run, a_hunt_summary
from fakes.interface_answers import an_interface_summary
from fakes.sdk import a_run, a_summary, an_interventions_summary, figure, ok, run_answer, summary_answer


def stressed(*states: str, **changes: object) -> StressTestSummary:
    """A stress test that gave these verdicts."""
    verdicts = [
        ClassifierVerdict.model_validate(
            {"classifier": "a", "state": state, "finding": None, "sentence": "."}
        )
        for state in states
    ]
    return a_summary(a=figure()).model_copy(update={"verdicts": verdicts, **changes})


def hunted(described: bool = False, **changes: object) -> BugHuntSummary:
    """A hunt with these results; of a description of the user's own, or of what it finds."""
    made = a_hunt_summary()
    request = made.config.request.model_copy(update={"descriptions": ["a fly at night"] if described else []})
    config = made.config.model_copy(update={"request": request})
    return made.model_copy(update={"config": config, **changes})


def bare(body: type[Any], **fields: object) -> Any:
    """A body of which only these fields are looked at."""
    return body.model_construct(**fields)


def shown_to(images: int) -> TransferCell:
    """A cell of a transfer with so many images."""
    cell: TransferCell = bare(TransferCell, rate=Estimate(estimate=None, low=None, high=None, n=images))
    return cell


NOT_JUDGED = {"in the snow": a_shift("in the snow", None)}
TRIED = bare(HypothesisResult, number=1)
PROOF = {"config": {"proof": {"parent": "run-0"}}}


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (stressed(), 5),
        (stressed("cannot-tell", "test-unfit"), 5),
        (stressed("cannot-tell", "holds"), 0),
        (stressed("suspected"), 0),
        (stressed("breaks"), 0),
        (stressed("suspected", **PROOF), 5),
        (stressed("cannot-tell", **PROOF), 5),
        (stressed("holds", **PROOF), 0),
        (an_interventions_summary(a=figure()).model_copy(update={"verdicts": []}), 0),
        (an_interventions_summary(a=figure()), 0),
        (stressed("cannot-tell", interventions=an_interventions_summary(a=figure()).interventions), 5),
        (hunted(), 5),
        (hunted(hypotheses=[TRIED]), 0),
        (hunted(mixtures=[bare(MixtureRate, label="fly")]), 0),
        (hunted(described=True, hypotheses=[TRIED], bugs=[bare(Bug, state="cannot-tell")]), 5),
        (hunted(described=True, hypotheses=[TRIED], bugs=[bare(Bug, state="test-unfit")]), 5),
        (hunted(described=True, hypotheses=[TRIED], bugs=[bare(Bug, state="breaks")]), 0),
        (an_interface_summary(), 0),
        (an_interface_summary(tokens={}, missing={"plate": "no image was left"}), 5),
        (a_benchmark_summary(), 0),
        (a_benchmark_summary(image_sources={}), 5),
        (a_benchmark_summary(image_sources={"token": an_image_source(shifts=NOT_JUDGED)}), 5),
        (
            a_benchmark_summary(
                image_sources={"token": an_image_source(shifts=NOT_JUDGED)}, prompts=prompt_rows()
            ),
            0,
        ),
        (bare(AdversarialDatasetSummary, kept=1), 0),
        (bare(AdversarialDatasetSummary, kept=0), 5),
        (bare(TransferSummary, cells=[shown_to(0), shown_to(3)]), 0),
        (bare(TransferSummary, cells=[shown_to(0)]), 5),
        (bare(TransferSummary, cells=[]), 5),
    ],
)
def test_only_a_run_that_says_something_passes(summary: BaseModel, code: int) -> None:
    with Client() as client:
        (kind,) = [
            name for name, each in client.runs._handles.items() if type(summary) is each._calls.figures
        ]
    assert runs_of(kind).judge(summary) == code


def ended(summary: StressTestSummary) -> list[httpx.Response]:
    return [run_answer(), run_answer("completed", 3), summary_answer(summary)]


@pytest.mark.parametrize(
    ("arguments", "answers"),
    [
        (("stress-test", "demo", "--classifier", "a"), ended(stressed())),
        (("runs", "wait", "run-1"), ended(stressed())),
        (
            ("prove", "run-1", "--finding", "1"),
            [run_answer("completed", 3), *ended(stressed("suspected", verdict="a\nb\nc", **PROOF))],
        ),
        (
            ("bug-hunt", "--classifier", "leaning", "--label", "fly"),
            [ok(a_hunt_run().model_dump_json()), ok(a_hunt_run("completed", 3).model_dump_json()),
             ok(hunted().model_dump_json())],
        ),
    ],
    ids=["stress-test", "wait", "prove", "bug-hunt"],
)  # fmt: skip
def test_every_command_that_follows_a_run_is_inconclusive_without_a_verdict(
    play: Play, arguments: tuple[str, ...], answers: list[httpx.Response]
) -> None:
    play(*answers)
    shown = run(*arguments)
    assert shown.exit_code == ExitCode.INCONCLUSIVE, shown.output
    assert "inconclusive: the run has no verdict (exit code 5)" in shown.stderr


@pytest.mark.parametrize(("state", "code"), [("breaks", 0), ("test-unfit", 5)])
def test_a_demo_without_a_verdict_is_inconclusive(play: Play, tmp_path: Path, state: str, code: int) -> None:
    report = httpx.Response(200, text="<html></html>")
    play(run_answer(), run_answer("completed", 3), summary_answer(stressed(state)), report)

    def figures_of(summaries: dict[str, Any], _: dict[str, float]) -> BaseModel:
        return StressTestSummary.model_validate(summaries["run"])

    shown = demo.Demo(
        images=lambda _: None, stages={"run": lambda client, _: client.stress_tests.get("run-1")},
        figures_of=figures_of, text=str, report="report", figures="figures", onward="",
    )  # fmt: skip
    assert demo._show(shown, "http://127.0.0.1:1", tmp_path) == code


def test_what_cannot_be_confirmed_is_said_once(play: Play) -> None:
    reason = "no edits are proposed"
    resolved = {"notes": [f"Nothing is confirmed: {reason}."], "confirmation": {"reason": reason}}
    created = a_run().model_copy(update={"resolved_config": resolved})
    play(ok(created.model_dump_json()), *ended(stressed("holds"))[1:])
    assert run("stress-test", "demo", "--classifier", "a").stderr.count(reason) == 1
