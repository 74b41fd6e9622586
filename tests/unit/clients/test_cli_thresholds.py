"""``counterpose inspections`` and the commands on shift thresholds: what they send, show, save and refuse."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel

from counterpose._cli.exit_code import ExitCode
from counterpose_core.contract.shift_thresholds import ShiftThresholds, ThresholdInForce
from counterpose_core.errors import NotFound
from fakes.benchmark_answers import a_decision, benchmark_answer, some_inspections, some_thresholds
from fakes.command import Play, run
from fakes.sdk import ok, problem

ROOT = "/v1/runs/run-1"
PNG = httpx.Response(200, content=b"png")
INSPECT = ("thresholds", "inspect", "run-1", "in the snow")
SET = ("thresholds", "set", "run-1", "in the snow")
JUDGE = ("thresholds", "judge", "run-1", "in the snow", "--author", "Ada")


def ref_of(item: str) -> str:
    """The reference of an item's image."""
    return hashlib.sha256(item.encode()).hexdigest()


def shown(*rows: tuple[float, str], pending: int = 0) -> httpx.Response:
    """The gateway's answer: one image around each percentile, by its item."""
    told = some_inspections()
    (row,) = told.inspections
    (image,) = row.images
    found = [
        row.model_copy(
            update={
                "percentile": at,
                "images": [image.model_copy(update={"item": item, "image": ref_of(item)})],
            }
        )
        for at, item in rows
    ]
    return ok(told.model_copy(update={"inspections": found, "pending": pending}).model_dump_json())


def decided() -> list[httpx.Response]:
    """The answers of a decision: the benchmark, and what was decided."""
    return [benchmark_answer(), ok(a_decision().model_dump_json())]


def test_an_inspected_image_is_listed_with_percentile_similarity_and_item(play: Play) -> None:
    script = play(benchmark_answer(), shown((5.0, "run-1.7"), pending=2))
    told = run(*INSPECT, "--image-source", "class-name")
    assert told.exit_code == 0, told.output
    assert [request.url.path for request in script.seen] == [ROOT, f"{ROOT}/inspections"]
    assert dict(script.seen[1].url.params) == {"shift": "in the snow", "image_source": "class-name"}
    (_, line) = told.stdout.splitlines()
    assert line.split("\t") == ["5", "0.150", "0.150", "run-1.7", "plate", ref_of("run-1.7")]
    assert "Do they show 'a photo in the snow'? 12 images from token, 2 more pending" in told.stderr


def test_inspected_images_are_fetched_once_and_saved_by_percentile_and_item(
    play: Play, tmp_path: Path
) -> None:
    # The last percentile of few images shows what the one before did.
    rows = ((5.0, "run-1.7"), (20.0, "run-1.9"), (30.0, "run-1.9"))
    script = play(benchmark_answer(), shown(*rows), PNG, PNG)
    told = run(*INSPECT, "--out", str(tmp_path / "new" / "look"))
    assert told.exit_code == 0, told.output
    saved = sorted((tmp_path / "new" / "look").iterdir())
    assert [path.name for path in saved] == ["005.0-run-1.7.png", "020.0-run-1.9.png", "030.0-run-1.9.png"]
    assert {path.read_bytes() for path in saved} == {b"png"}
    assert [line.split("\t")[-1] for line in told.stdout.splitlines()[1:]] == [str(path) for path in saved]
    assert len(script.seen) == 4


def test_the_name_of_an_item_never_leads_out_of_the_folder(play: Play, tmp_path: Path) -> None:
    play(benchmark_answer(), shown((5.0, "../../out")), PNG)
    run(*INSPECT, "--out", str(tmp_path / "look"))
    assert [path.name for path in (tmp_path / "look").iterdir()] == ["005.0-..%2F..%2Fout.png"]


ANSWERS: dict[str, tuple[tuple[str, ...], BaseModel]] = {
    "inspections": (INSPECT, some_inspections()),
    "shift-thresholds": (("thresholds", "show", "run-1"), some_thresholds()),
    "set-shift-threshold": ((*SET, "0.15", "--author", "Ada"), a_decision()),
    "judge-shift": ((*JUDGE, "--shows", "i1"), a_decision()),
}


@pytest.mark.parametrize("verb", ANSWERS)
def test_with_json_standard_output_holds_the_response_alone(play: Play, verb: str) -> None:
    arguments, body = ANSWERS[verb]
    play(benchmark_answer(), ok(body.model_dump_json()))
    told = run(*arguments, "--json")
    assert told.exit_code == 0, told.output
    assert type(body).model_validate_json(told.stdout) == body


def test_images_are_saved_with_json_too(play: Play, tmp_path: Path) -> None:
    play(benchmark_answer(), ok(some_inspections().model_dump_json()), PNG)
    told = run(*INSPECT, "--out", str(tmp_path / "look"), "--json")
    assert json.loads(told.stdout)["shift"] == "in the snow"
    assert len(list((tmp_path / "look").iterdir())) == 1


def test_thresholds_are_listed_with_their_authors_and_every_decision(play: Play) -> None:
    found = some_thresholds()
    more = {
        "at night": ThresholdInForce(threshold=0.2, set_by="suite"),
        "a painting": ThresholdInForce(),
        "in the fog": ThresholdInForce(set_by="person", author="Bo", nothing_passes=True),
    }
    judged = a_decision().model_copy(update={"percentile": 20.0, "failing_above": [40.0, 50.0]})
    nothing = a_decision().model_copy(update={"id": 2, "shift": "in the fog", "threshold": None})
    told = ShiftThresholds(in_force=found.in_force | more, decisions=[judged, nothing])
    script = play(benchmark_answer(), ok(told.model_dump_json()))
    lines = run("thresholds", "show", "run-1").stdout.splitlines()
    assert script.seen[1].url.path == f"{ROOT}/shift-thresholds"
    assert lines == [
        "shift\tthreshold\tset by",
        "in the snow\t0.150\tAda",
        "at night\t0.200\tsuite",
        "a painting\tnot applied\t-",
        "in the fog\tno image passes\tBo",
        "",
        "decision 1: in the snow: images pass from 0.150 up, percentile 20; at least one image lacks it at"
        " 40, 50 (Ada, 2026-01-02 00:00 UTC)",
        "decision 2: in the fog: no image passes (Ada, 2026-01-02 00:00 UTC)",
    ]


@pytest.mark.parametrize(("given", "sent"), [("0.15", 0.15), ("-0.1", -0.1), ("none", None), ("None", None)])
def test_a_threshold_is_set_under_the_name_of_its_author(play: Play, given: str, sent: float | None) -> None:
    script = play(*decided())
    told = run(*SET, given, "--author", "Ada", "--image-source", "token")
    assert told.exit_code == 0, told.output
    request = script.seen[1]
    assert (request.method, request.url.path) == ("PUT", f"{ROOT}/shift-thresholds/in the snow")
    assert json.loads(request.content) == {"threshold": sent, "author": "Ada", "image_source": "token"}
    assert told.stdout == "in the snow: images pass from 0.150 up (Ada, 2026-01-02 00:00 UTC)\n"


def test_judgements_are_sent_by_item(play: Play) -> None:
    script = play(*decided())
    told = run(*JUDGE, "--shows", "run-1.7", "--shows", "run-1.9", "--lacks", "run-1.8")
    assert told.exit_code == 0, told.output
    assert json.loads(script.seen[1].content) == {
        "shows": {"run-1.7": True, "run-1.9": True, "run-1.8": False}, "author": "Ada",
    }  # fmt: skip


MISTAKES = {
    "threshold in words": ((*SET, "half", "--author", "Ada"), "'half'"),
    "threshold above one": ((*SET, "1.5", "--author", "Ada"), "threshold"),
    "threshold that is no number": ((*SET, "nan", "--author", "Ada"), "threshold"),
    "nobody": ((*SET, "0.1", "--author", ""), "author"),
    "author left out": ((*SET, "0.1"), "--author"),
    "option that is none": ((*SET, "0.1", "--author", "Ada", "--sauce", "token"), "--sauce"),
    "image_source": ((*SET, "0.1", "--author", "Ada", "--image-source", "internet"), "'internet'"),
    "source to look at": ((*INSPECT, "--image-source", "internet"), "'internet'"),
    "source judged": ((*JUDGE, "--shows", "a", "--image-source", "internet"), "'internet'"),
    "judged both ways": ((*JUDGE, "--shows", "a", "--lacks", "a"), "'a' is given to both"),
    "nothing judged": (JUDGE, "--shows or --lacks"),
    "file in the folder's place": ((*INSPECT, "--out", __file__), "not a folder"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_nothing_is_sent(play: Play, mistake: str) -> None:
    arguments, named = MISTAKES[mistake]
    script = play()
    told = run(*arguments)
    assert told.exit_code == ExitCode.USAGE
    assert named in told.stderr
    assert script.seen == []


def test_a_missing_benchmark_is_named(play: Play) -> None:
    play(problem(NotFound("no run 'run-1'")))
    told = run("thresholds", "show", "run-1")
    assert told.exit_code == ExitCode.USAGE
    assert "no run 'run-1'" in told.stderr
