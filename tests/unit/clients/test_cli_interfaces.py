"""``counterpose dataset-interface`` and ``generate``: what they send, show, save and refuse unsent."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from counterpose import Client
from counterpose._cli.exit_code import ExitCode
from counterpose_core.errors import InvalidRequest, NotFound
from fakes.command import Play, run
from fakes.interface_answers import (
    a_token,
    an_interface_run,
    an_interface_summary,
    interface_answer,
    some_images,
)
from fakes.sdk import a_run, ok, problem

PNG = httpx.Response(200, content=b"png")


def learned(state: str = "completed") -> list[httpx.Response]:
    """The answers of an interface: created, awaited, summed up."""
    summary = an_interface_summary(tokens={"plate": a_token(state="holds")}).model_dump_json(by_alias=True)
    return [interface_answer(), interface_answer(state, 3), ok(summary)]  # type: ignore[arg-type]


def test_every_option_of_an_interface_reaches_the_gateway(play: Play) -> None:
    script = play(*learned())
    shown = run(
        "dataset-interface", "demo", "--token-init", "pet", "--class", "plate", "--class", "boat",
        "--prompts", "captions", "--vectors", "2", "--steps", "100", "--limit", "8", "--seed", "17",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert json.loads(script.seen[0].content) == {
        "dataset": "demo", "token_init": "pet", "classes": ["plate", "boat"], "prompts": "captions",
        "vectors": 2, "steps": 100, "limit": 8, "seed": 17,
    }  # fmt: skip


def test_the_defaults_of_the_command_are_those_of_the_sdk(play: Play) -> None:
    script = play(*learned(), interface_answer())
    run("dataset-interface", "demo")
    with Client() as client:
        client.dataset_interfaces.create(dataset="demo")
    assert script.seen[0].content == script.seen[-1].content


def test_the_table_has_each_class_with_intervals_and_names_what_is_missing(play: Play) -> None:
    play(*learned())
    shown = run("dataset-interface", "demo").stdout.splitlines()
    (plate,) = [line for line in shown if line.startswith("plate\t")]
    assert plate.split("\t")[1] == "holds"
    assert "0.300 [0.280, 0.320] (n=12)" in plate
    assert "0.500 to 0.300" in plate
    assert "missing boat: dataset-empty: no image can be read" in shown
    assert "missing tram: learning was cancelled" in shown


def test_a_cancelled_interface_is_incomplete_and_still_shown(play: Play) -> None:
    play(*learned("cancelled"))
    shown = run("dataset-interface", "demo")
    assert shown.exit_code == ExitCode.INCOMPLETE
    assert "the run ended cancelled: no item failed" in shown.stderr
    assert "plate" in shown.stdout


def test_a_folder_is_uploaded_first(play: Play, tmp_path: Path) -> None:
    (tmp_path / "images" / "bus").mkdir(parents=True)
    (tmp_path / "images" / "bus" / "1.png").write_bytes(b"x")
    dataset = {
        "name": "d",
        "classes": [],
        "n_sources": 1,
        "digest": "d",
        "created_at": "2026-01-01T00:00:00Z",
    }
    script = play(ok({"datasets": []}), ok(dataset), ok({"added": 1, "rejected": []}), *learned())
    assert run("dataset-interface", str(tmp_path / "images")).exit_code == 0
    assert json.loads(script.seen[3].content)["dataset"].startswith("images-")


MISTAKES = {
    "prompts": (["--prompts", "words"], "prompts"),
    "vectors": (["--vectors", "0"], "vectors"),
    "classes twice": (["--class", "a", "--class", "a"], "'a' is listed twice"),
    "report": (["--report", "absent/report.html"], "absent"),
    "seed": (["--seed", "-1"], "seed"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_nothing_is_sent(play: Play, tmp_path: Path, mistake: str) -> None:
    (tmp_path / "images" / "bus").mkdir(parents=True)
    more, named = MISTAKES[mistake]
    script = play()
    shown = run("dataset-interface", str(tmp_path / "images"), *more)
    assert shown.exit_code == ExitCode.USAGE
    assert named in shown.stderr
    assert script.seen == []


def test_generated_images_are_saved_and_listed(play: Play, tmp_path: Path) -> None:
    script = play(interface_answer(), some_images(2), PNG, PNG)
    shown = run(
        "generate", "run-1", "plate", "--shift", "in the snow", "--n", "2", "--seed", "4", "--by-name",
        "--steps", "3", "--guidance", "2", "--scheduler", "DDIMScheduler", "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert json.loads(script.seen[1].content) == {
        "class_name": "plate", "shift": "in the snow", "n": 2, "seed": 4, "by_name": True, "steps": 3,
        "guidance": 2.0, "scheduler": "DDIMScheduler",
    }  # fmt: skip
    lines = shown.stdout.splitlines()
    assert [Path(line.split("\t")[0]).read_bytes() for line in lines] == [b"png", b"png"]
    assert lines[0].endswith("seed 100\ta photo of a <class> in the snow")


def test_without_a_folder_only_references_are_listed(play: Play) -> None:
    script = play(interface_answer(), some_images(2))
    shown = run("generate", "run-1", "plate")
    assert len(shown.stdout.splitlines()) == 2
    assert len(script.seen) == 2


def test_images_are_saved_with_json_too(play: Play, tmp_path: Path) -> None:
    play(interface_answer(), some_images(1), PNG)
    shown = run("generate", "run-1", "plate", "--n", "1", "--out", str(tmp_path / "out"), "--json")
    assert json.loads(shown.stdout)["images"][0]["class_name"] == "plate"
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.parametrize("n", ["0", "65"])
def test_more_images_than_one_call_generates_are_a_mistake(play: Play, n: str) -> None:
    play(interface_answer())
    assert run("generate", "run-1", "plate", "--n", n).exit_code == ExitCode.USAGE


def test_a_file_instead_of_the_folder_is_rejected_before_anything_is_generated(
    play: Play, tmp_path: Path
) -> None:
    (tmp_path / "out").write_bytes(b"")
    script = play()
    assert run("generate", "run-1", "plate", "--out", str(tmp_path / "out")).exit_code == ExitCode.USAGE
    assert script.seen == []


def test_wait_finds_a_run_of_another_kind_by_its_id_alone(play: Play) -> None:
    script = play(*learned())
    shown = run("runs", "wait", "run-1")
    assert shown.exit_code == 0, shown.output
    assert "missing tram" in shown.stdout
    assert [request.url.path for request in script.seen[:2]] == ["/v1/runs/run-1", "/v1/runs/run-1/wait"]


def test_cancel_finds_a_run_of_another_kind_by_its_id_alone(play: Play) -> None:
    script = play(interface_answer(), interface_answer("cancelled"))
    assert run("runs", "cancel", "run-1").stdout == "cancelled\n"
    assert script.seen[-1].url.path == "/v1/runs/run-1/cancel"


def test_an_unknown_run_is_named(play: Play) -> None:
    play(problem(NotFound("no run")))
    shown = run("runs", "resume", "run-9")
    assert shown.exit_code == ExitCode.USAGE
    assert "no run 'run-9'" in shown.stderr


def test_max_drop_is_rejected_for_an_interface(play: Play) -> None:
    play(interface_answer())
    shown = run("runs", "wait", "run-1", "--max-drop", "0.1")
    assert shown.exit_code == ExitCode.USAGE
    assert "dataset-interface" in shown.stderr


def test_runs_of_all_kinds_are_listed_newest_first(play: Play) -> None:
    newer = an_interface_run().model_copy(
        update={"id": "run-2", "created_at": a_run().created_at.replace(day=2)}
    )
    play(ok({"runs": [json.loads(each.model_dump_json()) for each in (newer, a_run())]}))
    lines = run("runs", "list").stdout.splitlines()
    assert lines == [
        "run\tkind\tstate\titems\tcreated (UTC)\tdataset",
        "run-2\tdataset-interface\tqueued\t0/3\t2026-01-02 00:00\tdemo",
        "run-1\tstress-test\tqueued\t0/3\t2026-01-01 00:00\tdemo",
    ]


def test_an_error_of_the_gateway_is_shown(play: Play) -> None:
    play(interface_answer(), problem(InvalidRequest("the interface has no class 'cup'")))
    shown = run("generate", "run-1", "cup")
    assert shown.exit_code == ExitCode.USAGE
    assert "no class 'cup'" in shown.stderr
