"""A shift benchmark in the SDK: the issue's own example, thresholds, and what its figures are read as."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from counterpose_core.errors import InvalidRequest
from fakes.benchmark_answers import (
    a_benchmark_summary,
    a_decision,
    benchmark_answer,
    benchmark_summary_answer,
    some_inspections,
    some_thresholds,
)
from fakes.sdk import Session, ok

ROOT = "/v1/shift-benchmarks"


def taken_up(kind: str, *answers: httpx.Response) -> tuple[Session, Any]:
    """A session that has taken up a benchmark, and its handle."""
    session = Session(kind, benchmark_answer(), *answers)
    return session, session(lambda client: client.shift_benchmarks.get("run-1"))


def test_the_example_runs_as_written() -> None:
    figures = benchmark_summary_answer(a_benchmark_summary())
    session = Session("sync", benchmark_answer(), benchmark_answer("completed"), figures)
    client = session.client
    bench = client.shift_benchmarks.create(
        interface="interface-1", shifts="catalogue", classifiers=["leaning-resnet"]
    ).wait()
    summary = bench.summary()
    assert json.loads(session.seen[0].content)["shifts"] == "catalogue"
    effect = summary.image_sources["token"].shifts["in the snow"].effect
    assert (effect.impact.n, effect.slope.slope.n) == (9, 3)


def test_another_percentile_is_sent_with_the_request(kind: str) -> None:
    session, bench = taken_up(kind, benchmark_summary_answer(a_benchmark_summary()))
    session(lambda _: bench.summary(object_percentile=20))
    assert session.seen[1].url.path == "/v1/runs/run-1/summary"
    assert dict(session.seen[1].url.params) == {"object_percentile": "20"}


def test_the_default_percentile_is_left_to_the_gateway(kind: str) -> None:
    session, bench = taken_up(kind, benchmark_summary_answer(a_benchmark_summary()))
    assert session(lambda _: bench.summary()) == a_benchmark_summary()
    assert dict(session.seen[1].url.params) == {}


def test_inspections_are_requested_by_shift_and_source(kind: str) -> None:
    answer = ok(some_inspections().model_dump_json())
    session, bench = taken_up(kind, answer, answer)
    assert session(lambda _: bench.inspections("in the snow")) == some_inspections()
    session(lambda _: bench.inspections("in the snow", image_source="class-name"))
    assert session.seen[1].url.path == "/v1/runs/run-1/inspections"
    assert [dict(request.url.params) for request in session.seen[1:]] == [
        {"shift": "in the snow"}, {"shift": "in the snow", "image_source": "class-name"},
    ]  # fmt: skip


@pytest.mark.parametrize("threshold", [0.15, None])
def test_a_threshold_is_set_under_the_name_of_its_author(kind: str, threshold: float | None) -> None:
    session, bench = taken_up(kind, ok(a_decision().model_dump_json()))
    session(lambda _: bench.set_shift_threshold("in the snow", threshold, "Ada"))
    request = session.seen[1]
    assert (request.method, request.url.path) == ("PUT", "/v1/runs/run-1/shift-thresholds/in the snow")
    assert json.loads(request.content) == {"threshold": threshold, "author": "Ada"}


def test_judgements_of_images_are_sent_unchanged(kind: str) -> None:
    session, bench = taken_up(kind, ok(a_decision().model_dump_json()))
    session(lambda _: bench.judge_shift("in the snow", {"i1": True}, "Ada", image_source="token"))
    assert json.loads(session.seen[1].content) == {
        "shows": {"i1": True},
        "author": "Ada",
        "image_source": "token",
    }


def test_the_name_of_a_shift_never_leads_to_another_path(kind: str) -> None:
    session, bench = taken_up(kind, ok(a_decision().model_dump_json()))
    session(lambda _: bench.set_shift_threshold("a/../b?c", 0.1, "Ada"))
    assert session.seen[1].url.raw_path.decode() == "/v1/runs/run-1/shift-thresholds/a%2F..%2Fb%3Fc"


@pytest.mark.parametrize("threshold", [1.5, float("nan")])
def test_a_threshold_outside_the_range_is_not_sent(kind: str, threshold: float) -> None:
    session, bench = taken_up(kind)
    with pytest.raises(InvalidRequest, match="threshold"):
        session(lambda _: bench.set_shift_threshold("in the snow", threshold, "Ada"))
    assert len(session.seen) == 1


def test_thresholds_in_force_are_read(kind: str) -> None:
    session, bench = taken_up(kind, ok(some_thresholds().model_dump_json()))
    assert session(lambda _: bench.shift_thresholds()) == some_thresholds()


def test_a_report_is_saved(kind: str, tmp_path: Path) -> None:
    session, bench = taken_up(kind, httpx.Response(200, text="<html>é"))
    assert session(lambda _: bench.save_report(tmp_path / "report.html")) == tmp_path / "report.html"
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == "<html>é"


def test_a_report_that_cannot_be_written_names_its_path(kind: str, tmp_path: Path) -> None:
    session, bench = taken_up(kind, httpx.Response(200, text="<html>"))
    with pytest.raises(InvalidRequest, match="absent"):
        session(lambda _: bench.save_report(tmp_path / "absent" / "report.html"))


@pytest.mark.parametrize("verb", ["cancel", "resume"])
def test_methods_of_a_run_use_its_path(kind: str, verb: str) -> None:
    session, bench = taken_up(kind, benchmark_answer())
    session(lambda _: getattr(bench, verb)())
    assert session.seen[1].url.path == f"/v1/runs/run-1/{verb}"


def test_a_python_function_is_served_for_a_benchmark_too(kind: str) -> None:
    session = Session(kind, benchmark_answer())
    session.client.serve_functions = lambda names: [f"oip:http://127.0.0.1:1/{name}" for name in names]
    session(lambda client: client.shift_benchmarks.create(interface="i-1", classifiers=["py"]))
    assert json.loads(session.seen[0].content)["classifiers"] == ["oip:http://127.0.0.1:1/py"]
