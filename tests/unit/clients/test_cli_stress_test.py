"""``counterpose stress-test``: every option of a request, and the thresholds that judge its run again."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from counterpose._cli.exit_code import ExitCode
from counterpose_core.contract.stress_test_thresholds import GateThresholds, JudgedAgain, TextThresholds
from counterpose_core.types import Estimate
from fakes.benchmark_answers import benchmark_answer
from fakes.command import Play, run
from fakes.sdk import a_summary, figure, ok, run_answer, summary_answer
from unit.clients.test_cli import applied

SUMMARY = a_summary(steady=figure(0.0, -0.01, 0.02))
AGAIN = SUMMARY.model_copy(
    update={
        "judged_again": JudgedAgain(
            gate=GateThresholds(direction=0.3), text=TextThresholds(), own_gate=GateThresholds(),
            own_text=TextThresholds(), dropped=2, left_out={"not-made": 1},
            share_left_out=Estimate(estimate=0.1, low=0.0, high=0.4, n=10),
        )
    }
)  # fmt: skip


def test_every_option_of_a_stress_test_reaches_the_gateway(play: Play) -> None:
    script = play(run_answer(), run_answer("completed", 3), summary_answer(SUMMARY))
    shown = run(
        "stress-test", "demo", "--classifier", "leaning-resnet", "--classifier",
        "timm:resnet50", "--edit-type", "domain", "--edit-type", "background",
        "--max-edits-per-image", "3", "--preset", "lance", "--selection", "released", "--limit", "8",
        "--seed", "17", "--lance-r-edits-per-image", "2", "--refuse-word", "rusty", "--refuse-word", "old",
        "--exclude", "bus/1.png", "--edit", "bus=>tram,taxi", "--edit", "in the rain=>", "--no-confirm",
        "--confirm-share", "0.5", "--near-duplicates", "0.999", "--strength", "0.2",
        "--threshold", "direction=0.3", "--threshold", "closer=false",
        "--anyway",
    )  # fmt: skip
    assert shown.exit_code == 0
    assert json.loads(script.seen[0].content) == {
        "dataset": "demo", "classifiers": ["leaning-resnet", "timm:resnet50"],
        "edit_types": ["domain", "background"], "max_edits_per_image": 3, "preset": "lance",
        "selection": "released", "limit": 8, "seed": 17, "lance_r_edits_per_image": 2,
        "refused_words": ["rusty", "old"], "exclude": ["bus/1.png"], "confirm": False, "confirm_share": 0.5,
        "near_duplicates": 0.999, "strength": [0.2], "thresholds": {"direction": 0.3, "closer": False},
        "outside_suite": "continue",
        "interventions": [
            {"removed": "bus", "added": "tram"}, {"removed": "bus", "added": "taxi"},
            {"removed": "in the rain", "added": ""},
        ],
    }  # fmt: skip


def test_a_label_map_is_read_from_its_file(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "map.json"
    file.write_text('{"boat": ["speedboat", "canoe"], "bus": "minibus"}', encoding="utf-8")
    script = play(run_answer(), run_answer("completed", 3), summary_answer(SUMMARY))
    shown = run("stress-test", "demo", "--classifier", "timm:resnet50", "--label-map", str(file))
    assert shown.exit_code == 0, shown.stderr
    assert json.loads(script.seen[0].content)["label_map"] == {
        "boat": ["speedboat", "canoe"], "bus": ["minibus"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file"), ("{", "it is not JSON"), ('["boat"]', "label_map maps a class to names"),
        ('{"boat": 3}', "gives 'boat' no list of class names"), ('{"boat": []}', "no class of a classifier"),
        ('{"boat": ["canoe", "canoe"]}', "'canoe' is listed twice"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_label_map_is_refused_before_anything_is_sent(
    text: str | None, told: str, play: Play, tmp_path: Path
) -> None:
    file = tmp_path / "map.json"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    script = play()
    shown = run("stress-test", "demo", "--classifier", "timm:resnet50", "--label-map", str(file))
    assert shown.exit_code == ExitCode.USAGE
    assert told in shown.stderr
    assert not script.seen


def test_a_run_is_shown_as_other_thresholds_judge_it(play: Play) -> None:
    script = play(run_answer("completed", 3), summary_answer(AGAIN))
    shown = run("show", "run-1", "--threshold", "direction=0.3", "--threshold", "closer=false")
    assert shown.exit_code == 0, shown.stderr
    assert dict(script.seen[1].url.params) == {"direction": "0.3", "closer": "false"}
    assert (
        "Judged again by direction 0.3 (the run's: 0.2): no image was made. 2 images that the run kept are "
        "dropped. Left out of all figures: 0.100 [0.000, 0.400] (n=10) of the edits and placebos: 1 would be "
        "another edit, which was never made."
    ) in shown.stdout


def test_a_report_is_written_as_other_thresholds_judge_it(play: Play, tmp_path: Path) -> None:
    page = httpx.Response(200, text="<html></html>", headers={"content-type": "text/html"})
    script = play(run_answer("completed", 3), page)
    written = run("report", "run-1", "--out", str(tmp_path / "strict.html"), "--threshold", "image_text=0.5")
    assert written.exit_code == 0, written.stderr
    assert dict(script.seen[1].url.params) == {"image_text": "0.5"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["direction"], "a threshold is NAME=VALUE, such as direction=0.3, not 'direction'"),
        (
            ["directon=0.3"],
            "no threshold is named 'directon' (did you mean 'direction'?); there are direction, image_image",
        ),
        (["direction=0.3", "direction=0.4"], "the threshold 'direction' is given twice"),
        (["direction=1.5"], "direction"),
        (["closer=0.5"], "closer"),
    ],
)
def test_a_mistaken_threshold_is_named_and_nothing_is_sent(play: Play, given: list[str], told: str) -> None:
    script = play()
    shown = run("show", "run-1", *[word for each in given for word in ("--threshold", each)])
    assert shown.exit_code == ExitCode.USAGE
    assert told in shown.stderr
    assert script.seen == []


def test_thresholds_of_a_run_of_another_kind_are_refused(play: Play) -> None:
    play(benchmark_answer())
    shown = run("show", "run-1", "--threshold", "direction=0.3")
    assert shown.exit_code == ExitCode.USAGE
    assert "--threshold needs a stress test, and run 'run-1' is a shift-benchmark" in shown.stderr


@pytest.mark.parametrize("pair", ["rotation", "=rotation", "6="])
def test_an_exclusion_without_its_class_is_refused_before_anything_is_sent(play: Play, pair: str) -> None:
    script = play()
    shown = run("stress-test", "demo", "--classifier", "timm:resnet50", "--exclude-operation", pair)
    assert shown.exit_code == ExitCode.USAGE
    assert f"CLASS=NAME, such as 6=rotation, not {pair!r}" in " ".join(shown.stderr.split())
    assert script.seen == []


def test_a_folder_of_backgrounds_is_uploaded_and_named(play: Play, tmp_path: Path) -> None:
    (tmp_path / "scenes" / "any").mkdir(parents=True)
    (tmp_path / "scenes" / "any" / "1.png").write_bytes(b"image")
    made = {
        "name": "scenes", "classes": ["any"], "n_sources": 1, "digest": "",
        "created_at": "2026-11-29T12:00:00Z",
    }  # fmt: skip
    script = play(
        ok({"datasets": []}),
        ok(made),
        ok({"added": 1, "rejected": []}),
        run_answer(),
        run_answer("completed", 3),
        summary_answer(a_summary()),
    )
    shown = run(
        "stress-test", "demo", "--classifier", "timm:resnet50", "--backgrounds", str(tmp_path / "scenes")
    )
    bodies = [json.loads(each.content) for each in script.seen if each.url.path == "/v1/stress-tests"]
    assert bodies, shown.stderr
    assert bodies[0]["transforms"]["backgrounds"].startswith("scenes-")


@pytest.fixture
def paired(tmp_path: Path) -> Path:
    """A folder of images, and beside it what was made of one."""
    for name in ("photographs/cat/1.png", "fog.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_a_table_of_pairs_is_uploaded_and_named(play: Play, paired: Path) -> None:
    (paired / "pairs.csv").write_text("source,counterfactual,change\ncat/1.png,fog.png,in fog\n")
    made = {
        "name": "pairs",
        "classes": [],
        "n_sources": 1,
        "digest": "",
        "created_at": "2026-11-29T12:00:00Z",
    }
    added = ok({"added": 1, "rejected": []})
    script = play(
        ok({"datasets": []}), ok(made), added, ok({"datasets": []}), ok(made), added,
        run_answer(), run_answer("completed", 3), summary_answer(a_summary()),
    )  # fmt: skip
    table, folder = str(paired / "pairs.csv"), str(paired / "photographs")
    shown = run("stress-test", folder, "--pairs", table, "--classifier", "timm:resnet50")
    bodies = {each.url.path: json.loads(each.content) for each in script.seen if each.content}
    assert bodies, shown.stderr
    assert bodies["/v1/stress-tests"]["transforms"]["pairs"].startswith("pairs-pairs-")
    assert bodies["/v1/stress-tests"]["dataset"].startswith("photographs-")
    (pair,) = (
        source["pair"] for each in bodies.values() for source in each.get("sources", ()) if source.get("pair")
    )
    assert pair == {"source": "1.png", "change": "in fog", "level": 1}


@pytest.mark.parametrize(
    ("dataset", "table", "fault"),
    [
        ("photographs", "none.csv", "there is no table"),
        ("photographs", "bad.csv", "line 2 of"),
        ("demo", "bad.csv", "and 'demo' is none; name it, or upload the pairs"),
    ],
)
def test_a_table_that_cannot_be_read_ends_the_command_before_anything_is_sent(
    play: Play, paired: Path, dataset: str, table: str, fault: str
) -> None:
    (paired / "bad.csv").write_text("source,counterfactual,change\ncat/2.png,fog.png,in fog\n")
    folder = str(paired / dataset) if dataset == "photographs" else dataset
    script = play()
    shown = run("stress-test", folder, "--pairs", str(paired / table), "--classifier", "timm:resnet50")
    assert shown.exit_code == ExitCode.USAGE
    assert fault in " ".join(shown.stderr.split())
    assert script.seen == []


def test_apply_says_to_which_class_an_operation_s_finding_is_applied(play: Play) -> None:
    first, history, created, *rest = applied()
    asked = {"dataset": "demo", "classifiers": ["steady"], "seed": 4, "interventions": []}
    choice = {"operations": ["fog"], "excluded": {"bus": ["fog"]}}
    run_2 = json.loads(created.content)
    run_2["resolved_config"] = {"request": {**asked, "transforms": choice}, "classes": ["bus", "sled"]}
    play(first, history, ok(run_2), *rest)
    shown = run("apply", "run-1", "--finding", "1")
    assert "every image of the class 'sled' in demo: fog; seed 4" in shown.stderr
