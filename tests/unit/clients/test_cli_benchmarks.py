"""``faultline shift-benchmark`` and ``compare-prompts``: what they send, show, write and refuse unsent."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from fakes.command import Play, run
from fakes.sdk import problem
from fakes.told_benchmarks import a_benchmark_summary, benchmark_answer, benchmark_summary_answer, prompt_rows
from faultline import Client
from faultline._gate import Exit
from faultline_core.errors import NotFound

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
        "--classes", "plate", "--source", "token", "--source", "retrieval", "--retrieval", "found",
        "--n", "5", "--real", "7", "--steps", "4", "--seed", "9",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    sent = json.loads(script.seen[0].content)
    assert {name: value for name, value in sent.items() if value not in (None, {})} == {
        "interface": "i-1", "classifiers": ["a", "b"], "shifts": ["in the snow", "at night"],
        "classes": ["plate"], "sources": ["token", "retrieval"], "retrieval": "found", "n": 5, "real": 7,
        "steps": 4, "seed": 9,
    }  # fmt: skip


def test_the_command_s_defaults_are_the_sdk_s(play: Play) -> None:
    script = play(*ended(), benchmark_answer())
    run(*BENCHMARK)
    with Client() as client:
        client.shift_benchmarks.create(interface="i-1", classifiers=["a"])
    assert script.seen[0].content == script.seen[-1].content


def test_the_table_has_each_shift_with_interval_and_n(play: Play) -> None:
    play(*ended())
    lines = run(*BENCHMARK).stdout.splitlines()
    (snow,) = [line for line in lines if line.startswith("in the snow")]
    assert "0.220 [0.120, 0.310] (n=9)" in snow
    assert "2.500 [1.500, 3.500] (n=3)" in snow
    assert "0.750 [0.470, 0.910] (n=12)" in snow


def test_a_folder_gets_report_and_figures(play: Play, tmp_path: Path) -> None:
    play(*ended(), REPORT)
    shown = run(*BENCHMARK, "--out", str(tmp_path / "new" / "out"))
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "new" / "out" / "report.html").read_text() == "<html>"
    written = json.loads((tmp_path / "new" / "out" / "summary.json").read_text())
    assert written == json.loads(a_benchmark_summary(prompts=prompt_rows()).model_dump_json(by_alias=True))


def test_a_report_may_lie_elsewhere(play: Play, tmp_path: Path) -> None:
    play(*ended(), REPORT)
    run(*BENCHMARK, "--out", str(tmp_path / "out"), "--report", str(tmp_path / "mine.html"))
    assert (tmp_path / "mine.html").is_file()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["summary.json"]


def test_prompts_of_one_class_are_compared_by_token_and_by_name(play: Play) -> None:
    script = play(*ended())
    shown = run(*COMPARE, "--prompt", "in the snow", "--prompt", "a photo of an empty <class>", "--n", "6")
    assert shown.exit_code == 0, shown.output
    sent = json.loads(script.seen[0].content)
    assert sent["classes"] == ["plate"]
    assert sent["shifts"] == ["in the snow", "a photo of an empty <class>"]
    assert sent["sources"] == ["token", "class-name"]
    rows = [line for line in shown.stdout.splitlines() if line.startswith("leaning")]
    assert len(rows) == 4
    assert "0.800 [0.700, 0.900] (n=6)" in rows[0]
    assert rows[0].endswith(" -")
    assert rows[3].endswith("0.100 [-0.100, 0.300] (n=6)")


MISTAKES = {
    "source": (["--source", "internet"], "'internet'"),
    "n": (["--n", "0"], "n: "),
    "classifier": (["--classifier", "../etc"], "classifiers"),
    "classifier twice": (["--classifier", "a"], "distinct"),
    "report": (["--report", "absent/report.html"], "absent"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_nothing_is_sent(play: Play, mistake: str) -> None:
    more, named = MISTAKES[mistake]
    script = play()
    shown = run(*BENCHMARK, *more)
    assert shown.exit_code == Exit.USAGE
    assert named in shown.stderr
    assert script.seen == []


def test_a_file_in_the_folder_s_place_is_refused_before_anything_is_made(play: Play, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"")
    script = play()
    assert run(*BENCHMARK, "--out", str(tmp_path / "out")).exit_code == Exit.USAGE
    assert script.seen == []


def test_a_benchmark_is_waited_for_by_its_id_alone(play: Play) -> None:
    missing = problem(NotFound("no run"))
    play(missing, missing, *ended())
    shown = run("wait", "run-1")
    assert shown.exit_code == 0, shown.output
    assert "in the snow" in shown.stdout
