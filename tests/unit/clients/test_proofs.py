"""Proofs from Python and from the command line: what is asked of the gateway, and what is told."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from counterpose import Classifier, StressTest
from counterpose._cli.exit_code import ExitCode
from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.contract.findings import ClassifierVerdict
from counterpose_core.contract.proofs import FindingHistory
from fakes.command import Play, run
from fakes.findings import a_confirmation, a_finding
from fakes.sdk import Session, a_run, a_summary, figure, ok, run_answer, summary_answer

PARENT = "3fa8" + "0" * 28
CHILD = "77aa" + "0" * 28
PATH = f"/v1/runs/{PARENT}/findings"
NONE = ok({"runs": []})
FINDING = a_finding(number=2, state="breaks", confirmed=a_confirmation())
HISTORY = FindingHistory(
    run_id=PARENT, told=a_finding(number=2), finding=FINDING, runs=[], pairs=[], e_value=170.0,
    e_value_needed=160.0, family=8, images_needed=0,
)  # fmt: skip


def a_parent() -> httpx.Response:
    """The run that has the finding."""
    return ok(a_run("completed", 3, PARENT).model_dump_json())


def a_child(state: Any = "queued", done: int = 0) -> httpx.Response:
    """The run that proves it."""
    made = a_run(state, done, CHILD).model_copy(update={"parent": PARENT})
    return ok(made.model_dump_json())


def proven() -> httpx.Response:
    """The figures of the child."""
    verdict = ClassifierVerdict(classifier="leaning", state="breaks", finding=2, sentence=FINDING.sentence)
    said = f"The model breaks.\n{FINDING.sentence}\nThis run goes on with finding 2.\nEvidence: 170."
    update = {"findings": [FINDING], "verdicts": [verdict], "verdict": said}
    return summary_answer(a_summary(leaning=figure()).model_copy(update=update))


def sure_of_the_first(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Probabilities of two classes."""
    return np.tile([1.0, 0.0], (len(images), 1))


def test_a_proof_is_a_run_of_its_own_that_names_its_parent(kind: str) -> None:
    session = Session(kind, a_parent(), a_child())
    parent = session(lambda client: client.stress_tests.get(PARENT))
    child = session(lambda _: parent.prove(2, images=7))
    assert (child.id, child.parent, parent.parent) == (CHILD, PARENT, None)
    sent = session.seen[1]
    assert (sent.method, sent.url.path) == ("POST", f"{PATH}/2/prove")
    assert json.loads(sent.content) == {"images": 7}
    assert sent.headers[IDEMPOTENCY_HEADER]


def test_a_finding_may_be_given_itself_and_every_setting_is_sent(kind: str) -> None:
    session = Session(kind, a_child())
    session(
        lambda client: client.stress_tests.prove(
            PARENT, finding=FINDING, images=5, dataset="more", seed=9, idempotency_key="once"
        )
    )
    (sent,) = session.seen
    assert sent.url.path == f"{PATH}/2/prove"
    assert json.loads(sent.content) == {"images": 5, "dataset": "more", "seed": 9}
    assert sent.headers[IDEMPOTENCY_HEADER] == "once"


def test_a_classifier_of_a_new_program_is_served_under_its_name(kind: str) -> None:
    own = Classifier(sure_of_the_first, classes=["sled", "boat"], input_size=(16, 16), name="mine")
    session = Session(kind, a_parent(), a_child(), a_child(), url="http://127.0.0.1:8080")
    parent = session(lambda client: client.stress_tests.get(PARENT))
    session(lambda _: parent.prove(2, classifier=own))
    session(lambda client: client.stress_tests.prove(PARENT, finding=2, classifier=own))
    session.client._functions.close()
    for sent in session.seen[1:]:
        asked = json.loads(sent.content)
        assert set(asked) == {"images", "functions"}
        assert set(asked["functions"]) == {"mine"}
        assert asked["functions"]["mine"].startswith("http://127.0.0.1:")


@pytest.mark.parametrize("finding", [2, FINDING], ids=["number", "finding"])
def test_a_finding_is_read_with_all_its_runs(kind: str, finding: object) -> None:
    session = Session(kind, a_parent(), ok(HISTORY.model_dump_json()))
    parent = session(lambda client: client.stress_tests.get(PARENT))
    assert session(lambda _: parent.finding(finding)) == HISTORY
    assert session.seen[1].url.path == f"{PATH}/2"


def test_the_command_follows_the_child_and_ends_in_one_line(play: Play) -> None:
    script = play(a_parent(), a_child(), a_child("completed", 3), proven())
    shown = run("prove", PARENT, "--finding", "2", "--images", "5")
    assert shown.exit_code == ExitCode.PASSED, shown.output
    assert shown.stdout == f"breaks: {FINDING.sentence}\n"
    assert f"run {CHILD}" in shown.stderr
    assert "This run goes on with finding 2.\nEvidence: 170." in shown.stderr
    assert json.loads(script.seen[1].content) == {"images": 5}


def test_the_command_takes_the_beginning_of_an_id_as_reports_print_it(play: Play) -> None:
    runs = [json.loads(a_run("completed", 3, PARENT).model_dump_json())]
    script = play(ok({"runs": runs}), a_child())
    shown = run("prove", PARENT[:8], "--finding", "2", "--detach")
    assert shown.stdout == f"{CHILD}\n", shown.output
    assert script.seen[-1].url.path == f"{PATH}/2/prove"
    assert json.loads(script.seen[-1].content) == {"images": 20}


def test_without_a_run_it_is_the_last_stress_test(play: Play) -> None:
    runs = [json.loads(a_run("completed", 3, PARENT).model_dump_json())]
    script = play(ok({"runs": runs}), a_child())
    assert run("prove", "--finding", "2", "--detach").exit_code == 0
    assert [request.url.path for request in script.seen] == ["/v1/runs", f"{PATH}/2/prove"]


@pytest.mark.parametrize(
    "arguments", [["--finding", "2", "--images", "0"], ["--images", "5"], ["--finding", "2", "--seed", "-1"]]
)
def test_a_wrong_request_asks_the_gateway_nothing(play: Play, arguments: list[str]) -> None:
    script = play()
    assert run("prove", PARENT, *arguments).exit_code == ExitCode.USAGE
    assert script.seen == []


def test_the_parent_of_a_run_is_known_without_a_request(kind: str) -> None:
    session = Session(kind, run_answer())
    started = session(lambda client: client.stress_tests.get("run-1"))
    assert isinstance(started, StressTest) or kind == "async"
    assert started.parent is None
    assert len(session.seen) == 1
