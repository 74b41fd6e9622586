"""What a notebook shows of the SDK beside runs: a bar redrawn in its place, and values in sentences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from IPython.lib.pretty import pretty

from counterpose import AsyncClient, Client
from counterpose_core.contract.proofs import FindingHistory
from counterpose_core.contract.runs import RunEvent
from counterpose_core.contract.stress_test_estimates import StressTestEstimate
from fakes.findings import a_confirmation, a_finding
from fakes.sdk import Session, a_run, run_answer


class Display:
    """A stand-in for ``IPython.display.display`` that keeps what each place shows."""

    def __init__(self) -> None:
        self.places: list[list[dict[str, str]]] = []

    def __call__(self, page: dict[str, str], *, raw: bool, display_id: bool) -> SimpleNamespace:
        assert raw
        assert display_id
        place = [page]
        self.places.append(place)
        return SimpleNamespace(update=lambda page, raw: place.append(page))


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    """A notebook: IPython has a shell with a kernel."""
    made = Display()
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setattr("IPython.display.display", made)
    return made


def waited(kind: str) -> None:
    """Wait with progress for a run that goes on."""
    session = Session(kind, run_answer(), run_answer("in_progress", 1), run_answer("completed", 3))
    run: Any = session(lambda client: client.stress_tests.get("run-1"))
    session(lambda _: run.wait(progress=True))


def test_a_notebook_shows_a_bar_that_is_redrawn_in_its_place(
    kind: str, display: Display, capsys: Any
) -> None:
    waited(kind)
    (place,) = display.places
    assert ['value="0.3333" max="1"' in page["text/html"] for page in place] == [True, False]
    assert "completed, 3 of 3 items" in place[-1]["text/html"]
    assert "completed: 3 of 3 items" in place[-1]["text/plain"]
    assert capsys.readouterr() == ("", "")


def test_ipython_in_a_terminal_shows_a_line(
    kind: str, display: Display, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=None))
    waited(kind)
    assert display.places == []
    assert "3 of 3 items" in capsys.readouterr().err


def test_a_finding_reads_as_its_sentence_with_its_loss() -> None:
    shown = pretty(a_finding(number=2, state="cannot-tell", confirmed=a_confirmation()))
    assert shown.startswith("2 cannot tell: ")
    assert shown.endswith("loss of p(sled) 0.620 [0.410, 0.780] (n=12)")
    assert "not tested" in pretty(a_finding(number=2, state="suspected", confirmed=None))


@pytest.mark.parametrize(
    ("minutes", "said"), [(0.3, "about 1 minute ("), (1.3, "about 1 minute ("), (1.6, "about 2 minutes (")]
)
def test_an_estimate_reads_in_sentences(minutes: float, said: str) -> None:
    estimate = StressTestEstimate(
        images=24, screened=12, fresh=12, items=72, minutes=minutes, fastest=0.2, slowest=2.0, runs=1,
        hypotheses=4, least_pairs=7, power=0.75, classes=[], reason=None,
    )  # fmt: skip
    assert pretty(estimate) == str(estimate)
    assert said in pretty(estimate)


@pytest.mark.parametrize("outlook", ["About 7 more images would decide it.", ""])
def test_a_history_says_how_far_the_evidence_is(outlook: str) -> None:
    finding = a_finding(number=1, confirmed=a_confirmation())
    history = FindingHistory(
        run_id="run-1", told=finding, finding=finding, runs=[], pairs=[], e_value=9.52, e_value_needed=40.0,
        family=2, images_needed=7, outlook=outlook,
    )  # fmt: skip
    shown = pretty(history)
    assert shown.startswith(str(finding))
    assert "evidence 9.52 of 40 needed" in shown
    assert shown.endswith(outlook or "from 0 runs")


def test_a_body_without_a_sentence_shows_its_fields() -> None:
    event = RunEvent(id=1, run_id="run-1", state="queued", request_counts=a_run().request_counts)
    assert pretty(event).startswith("RunEvent(id=1, ")


@pytest.mark.parametrize("made", [Client, AsyncClient])
def test_a_client_shows_its_address_and_nothing_secret(made: type[Client] | type[AsyncClient]) -> None:
    client = made("http://user:secret@127.0.0.1:8080/", api_key="key")
    assert repr(client) == f"{made.__name__}('http://127.0.0.1:8080')"
