"""Parts of the pages: origins, a report inside a page, a run in words, figures of a run that goes."""

from __future__ import annotations

import datetime as dt
from typing import Any, get_args

import pytest

from counterpose_core.contract.confirmation import ConfirmationPlan
from counterpose_core.contract.runs import RequestCounts, Run
from counterpose_core.stress_test.item_counts import items_per_source
from counterpose_core.types import RunKind
from counterpose_gateway.http.request_head import is_own
from counterpose_gateway.ui import page_state
from counterpose_gateway.ui.environment import TEMPLATES, evidence
from counterpose_gateway.ui.page_state import LEAST_AGE_SECONDS, LiveFigures
from counterpose_gateway.ui.run_page import report_body
from counterpose_gateway.ui.shown_run import ShownRun
from fakes.results import fake_config
from fakes.sdk import a_run, a_summary, figure

CREATED = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ("https://gateway.example", "gateway.example", True),
        ("https://gateway.example", "gateway.example:443", True),
        ("http://[::1]:8080", "[::1]:8080", True),
        ("http://127.0.0.1:8081", "127.0.0.1:8080", False),
        ("http://localhost:8080", "127.0.0.1:8080", False),
        ("https://gateway.example", "gateway.example:80", False),
        ("https://gateway.example.evil.example", "gateway.example", False),
        ("https://gateway.example/x", "gateway.example", False),
        ("file://", "", False),
        ("null", "null", False),
        ("", "", False),
        ("http://", "", False),
        ("http://x:y", "x:y", False),
    ],
)
def test_an_origin_is_ours_if_it_is_the_address_asked(origin: str, host: str, own: bool) -> None:
    assert is_own(origin, host) == own


def test_a_report_inside_a_page_links_to_what_is_behind_it() -> None:
    finding = (
        '<article class="card finding" id="finding-{}"><div></div>\n'
        '<div class="says"><p>{}</p></div>\n</article>'
    )
    document = (
        "<html><head><script>no</script></head><body>\n<main>"
        + finding.format(1, "one") + finding.format(2, "two")
        + "<code>aa.7</code><code>ab.7</code></main><svg></svg>\n<script>run()</script></body></html>"
    )  # fmt: skip
    body = report_body(document, "aa")
    assert body.strip().startswith("<main>")
    assert "<script>" not in body
    for number, said in ((1, "one"), (2, "two")):
        assert f'<p>{said}</p><p><a class="at" href="/ui/runs/aa/findings/{number}">' in body
    assert '<a class="at" href="/ui/runs/aa/items/aa.7"><code>aa.7</code></a><code>ab.7</code>' in body


def shown(seconds: float = 100.0, **changes: Any) -> ShownRun:
    """A run as it is so many seconds after its creation."""
    run = a_run().model_copy(update={"created_at": CREATED, "started_at": CREATED} | changes)
    return ShownRun(run, CREATED + dt.timedelta(seconds=seconds))


def counts(done: int, total: int) -> RequestCounts:
    return RequestCounts(total=total, pending=total - done, done=done, filtered=0, failed=0, cancelled=0)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "just now"), (59, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (200000, "2 days ago")],
)
def test_the_age_of_a_run_in_words(seconds: float, said: str) -> None:
    assert shown(seconds).age == said


def test_the_time_that_is_left_is_told_once_enough_has_ended() -> None:
    going: dict[str, Any] = {"state": "in_progress"}
    assert shown(100.0, request_counts=counts(9, 90), **going).left == ""
    assert shown(100.0, request_counts=counts(10, 40), **going).left == "about 5 min 00 s left"
    assert shown(100.0, request_counts=counts(39, 40), **going).left == "less than a minute left"
    assert shown(100.0, request_counts=counts(40, 40), state="completed").left == ""


def test_the_time_left_is_of_the_whole_run_and_its_bar_leaves_room_for_what_may_follow() -> None:
    config, screen = fake_config(), 216
    per_source = items_per_source(config.request)
    plan = ConfirmationPlan(screened=24, fresh=24, budget=120)
    known = {"resolved_config": config.model_copy(update={"confirmation": plan}).model_dump(mode="json")}
    most = 24 * per_source + 24 + 120
    first = shown(60.0, state="in_progress", request_counts=counts(screen, screen), **known)
    assert (first.most_items, first.progress) == (most, f"216 of at most {most}")
    assert first.left.startswith("at most about ") or first.left == "less than a minute left"
    assert "phase" not in first.left
    last = shown(60.0, state="in_progress", stage=3, request_counts=counts(291, 300), **known)
    assert (last.most_items, last.progress) == (300, "291 of 300")
    ended = shown(60.0, state="completed", request_counts=counts(291, 291), **known)
    assert ended.most_items == 291


def test_a_run_of_one_phase_names_none() -> None:
    plan = {"screened": 2, "fresh": 2, "budget": 9, "reason": None}
    second = shown(resolved_config={"confirmation": plan}, stage=2, state="in_progress")
    assert [when for _, when in second.phases] == ["done", "now", "later"]
    assert shown(resolved_config={"confirmation": plan | {"reason": "too few"}}).phases == []
    assert shown(resolved_config={}).phases == []


@pytest.mark.parametrize(
    ("value", "said"), [(1.0, "1"), (8.84, "8.8"), (40.0, "40"), (999.6, "1000"), (123456.0, "1e5")]
)
def test_evidence_is_told_as_far_as_it_means_something(value: float, said: str) -> None:
    assert evidence(value) == said


def test_a_run_that_is_watched_is_summed_up_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now, summed = [0.0], [0]

    def summary_for(run: Run, context: object) -> object:
        summed[0] += 1
        now[0] += 4.0
        return a_summary(steady=figure())

    monkeypatch.setattr(page_state, "summary_for", summary_for)
    monkeypatch.setattr("counterpose_gateway.ui.page_state.time.monotonic", lambda: now[0])
    live, context = LiveFigures(), object()

    def of(done: int) -> Any:
        return live.of(a_run().model_copy(update={"request_counts": counts(done, 90)}), context)  # type: ignore[arg-type]

    assert of(0) is None
    first = of(1)
    now[0] += LEAST_AGE_SECONDS + 1
    # It took 4 s, so the next one waits for 20.
    assert of(2) is first
    now[0] += 12.0
    assert of(1) is first
    assert summed == [1]
    assert of(2) is not first
    assert summed == [2]


@pytest.mark.parametrize(
    ("kind", "request_", "said"),
    [
        ("bug-hunt", {"labels": ["boat"], "classifiers": ["leaning-vit"]}, "Bug hunt of boat, leaning-vit"),
        ("gate", {"classifiers": ["leaning-vit"]}, "Gate of leaning-vit"),
        ("transfer", {"classifiers": ["one", "two"]}, "Transfer of one, two"),
    ],
)
def test_a_run_without_a_dataset_has_a_whole_title(kind: str, request_: dict[str, Any], said: str) -> None:
    run = shown(kind=kind, dataset="", resolved_config={"request": request_})
    assert (run.title, run.about) == (said, said)
    head = TEMPLATES.get_template("run_head.html.j2").render(shown=run, children=[])
    assert f"{said}, 1 minute ago" in head


def test_every_kind_of_run_has_a_name_in_words() -> None:
    runs = [a_run().model_copy(update={"kind": kind}) for kind in get_args(RunKind)]
    titles = {run.kind: ShownRun(run, CREATED).kind for run in runs}
    assert all(title.lower().replace(" ", "-") == kind for kind, title in titles.items())
