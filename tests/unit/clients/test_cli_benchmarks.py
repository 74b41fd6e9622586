"""``counterpose shift-benchmark`` and ``compare-prompts``: what they send, show, write and refuse unsent."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from counterpose import Client
from counterpose._cli.exit_code import ExitCode
from fakes.benchmark_answers import (
    a_benchmark_summary,
    benchmark_answer,
    benchmark_summary_answer,
    prompt_rows,
)
from fakes.command import Play, run
from fakes.interface_answers import an_interface_run
from fakes.sdk import ok

BENCHMARK = ("shift-benchmark", "i-1", "--classifier", "a")
COMPARE = ("compare-prompts", "i-1", "plate", "--classifier", "a")
REPORT = httpx.Response(200, text="<html>")


def ended() -> list[httpx.Response]:
    """The answers of a benchmark: created, awaited, summed up."""
    summary = a_benchmark_summary(prompts=prompt_rows())
    return [benchmark_answer(), benchmark_answer("completed", 3), benchmark_summary_answer(summary)]


def test_every_option_reaches_the_gateway(play: Play) -> None:
    script = play(*ended())
    shown = run(
        *BENCHMARK, "--classifier", "b", "--shift", "in the snow", "--shift", "at night",
        "--class", "plate", "--image-source", "token", "--image-source", "retrieval", "--retrieval", "found",
        "--per-class", "5", "--real-per-class", "7", "--steps", "4", "--seed", "9",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    sent = json.loads(script.seen[0].content)
    assert {name: value for name, value in sent.items() if value not in (None, {})} == {
        "interface": "i-1", "classifiers": ["a", "b"], "shifts": ["in the snow", "at night"],
        "classes": ["plate"], "image_sources": ["token", "retrieval"], "retrieval": "found",
        "n": 5, "real": 7,
        "steps": 4, "seed": 9,
    }  # fmt: skip


def test_the_defaults_of_the_command_are_those_of_the_sdk(play: Play) -> None:
    script = play(*ended(), benchmark_answer())
    run(*BENCHMARK)
    with Client() as client:
        client.shift_benchmarks.create(interface="i-1", classifiers=["a"])
    assert script.seen[0].content == script.seen[-1].content


def test_the_table_has_each_shift_with_state_interval_and_n(play: Play) -> None:
    play(*ended())
    lines = run(*BENCHMARK).stdout.splitlines()
    (snow,) = [line for line in lines if line.startswith("in the snow")]
    assert snow.split("\t")[1] == "suspected"
    assert "0.220 [0.120, 0.310] (n=9)" in snow
    assert "2.500 [1.500, 3.500] (n=3)" in snow
    assert "0.750 [0.470, 0.910] (n=12)" in snow


def test_out_writes_report_and_summary_to_a_folder(play: Play, tmp_path: Path) -> None:
    play(*ended(), REPORT)
    shown = run(*BENCHMARK, "--out", str(tmp_path / "new" / "out"))
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "new" / "out" / "report.html").read_text() == "<html>"
    written = json.loads((tmp_path / "new" / "out" / "summary.json").read_text())
    assert written == json.loads(a_benchmark_summary(prompts=prompt_rows()).model_dump_json(by_alias=True))


def test_the_report_may_be_written_elsewhere(play: Play, tmp_path: Path) -> None:
    play(*ended(), REPORT)
    run(*BENCHMARK, "--out", str(tmp_path / "out"), "--report", str(tmp_path / "mine.html"))
    assert (tmp_path / "mine.html").is_file()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["summary.json"]


@pytest.mark.paper("DI-F7-grass")
def test_prompts_of_one_class_are_compared_by_token_and_by_name(play: Play) -> None:
    script = play(*ended())
    shown = run(
        *COMPARE, "--prompt", "in the snow", "--prompt", "a photo of an empty <class>", "--per-class", "6"
    )
    assert shown.exit_code == 0, shown.output
    sent = json.loads(script.seen[0].content)
    assert sent["classes"] == ["plate"]
    assert sent["shifts"] == ["in the snow", "a photo of an empty <class>"]
    assert sent["image_sources"] == ["token", "class-name"]
    rows = [line for line in shown.stdout.splitlines() if line.startswith("leaning")]
    assert len(rows) == 4
    assert "0.800 [0.700, 0.900] (n=6)" in rows[0]
    assert rows[0].endswith("\t-\t-") or rows[0].endswith("\t-")
    assert rows[3].endswith("0.100 [-0.100, 0.300] (n=6)")


MISTAKES = {
    "source": (["--image-source", "internet"], "'internet'"),
    "n": (["--per-class", "0"], "--per-class 0: must be at least 1"),
    "classifier": (["--classifier", "../etc"], "classifiers"),
    "classifier twice": (["--classifier", "a"], "listed twice"),
    "report": (["--report", "absent/report.html"], "absent"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_nothing_is_sent(play: Play, mistake: str) -> None:
    more, named = MISTAKES[mistake]
    script = play()
    shown = run(*BENCHMARK, *more)
    assert shown.exit_code == ExitCode.USAGE
    assert named in shown.stderr
    assert script.seen == []


def test_a_file_instead_of_the_folder_is_rejected_before_anything_is_generated(
    play: Play, tmp_path: Path
) -> None:
    (tmp_path / "out").write_bytes(b"")
    script = play()
    assert run(*BENCHMARK, "--out", str(tmp_path / "out")).exit_code == ExitCode.USAGE
    assert script.seen == []


def test_wait_finds_a_benchmark_by_its_id_alone(play: Play) -> None:
    play(*ended())
    shown = run("runs", "wait", "run-1")
    assert shown.exit_code == 0, shown.output
    assert "in the snow" in shown.stdout


@pytest.mark.parametrize("named", ["@last", "3fa"])
def test_an_interface_is_named_by_its_beginning_or_as_the_last_one(play: Play, named: str) -> None:
    whole = "3fa8" + "0" * 28
    learned = an_interface_run().model_copy(update={"id": whole})
    script = play(ok({"runs": [json.loads(learned.model_dump_json())]}), *ended())
    shown = run("shift-benchmark", named, "--classifier", "a")
    assert shown.exit_code == 0, shown.output
    assert script.seen[0].url.params["kind"] == "dataset-interface"
    assert json.loads(script.seen[1].content)["interface"] == whole
