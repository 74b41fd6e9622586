"""The command of *Reproduce*: the command line's own parser makes the request of it that made the run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from counterpose._cli import stress_test
from counterpose_core.commands import FUNCTION, operations_command, repeat_command, repeat_notes
from counterpose_core.contract.confirmation import SuspectedChange
from counterpose_core.contract.proofs import Proof
from counterpose_core.contract.stress_tests import StressTestCreate
from fakes.command import Play, run
from fakes.findings import a_finding
from fakes.sdk import a_run, a_summary, ok, run_answer, summary_answer

PARENT = "3fa8" + "0" * 28

SPECIAL = {"dataset", "classifiers", "functions", "function_specs", "seed", "applied_from"}
"""Fields that the other tests are about, and the link of an application, which no command makes."""
OTHER_THAN_DEFAULT: dict[str, Any] = {
    "edit_types": ["domain", "background"],
    "interventions": [{"removed": "bus", "added": "red 'tram'"}, {"removed": "in the rain", "added": ""},
                      {"removed": "", "added": "at night"}],
    "max_edits_per_image": 3,
    "lance_r_edits_per_image": 0,
    "preset": "quick",
    "selection": "released",
    "strength": [0.4, 0.05],
    "thresholds": {"direction": -0.3, "closer": False, "keep": 1},
    "limit": 8,
    "refused_words": ["rusty", "old"],
    "exclude": ["bus/the first.png", "-2.png"],
    "confirm": False,
    "confirm_share": 0.5,
    "near_duplicates": 0.999,
    "outside_suite": "continue",
    "preservation": "all",
    "region": "background",
    "refused_faults": ["moved", "ignored"],
    "judges": ["encoder", "clip"],
    "transforms": {"operations": ["rotation", "fog"], "levels": [5, 1], "size": None, "among": "model",
                   "excluded": {"a=6": ["fog", "rotation"], "9": ["fog"]}, "backgrounds": "scenes",
                   "masks": "own", "severity": "adaptive", "severity_loss": 0.2, "least_loss": 0.1},
    "spending": {"usd": 2.5, "images": 200},
    "label_map": {"bus": ["trolleybus", "a 'minibus'"]},
    "task": {"name": "classification", "acceptable": {"bus": ["tram", "a 'minibus'"]}},
}  # fmt: skip


def request_of(**fields: Any) -> StressTestCreate:
    body = {"dataset": "my-photos", "classifiers": ["timm:resnet50"], "seed": 17}
    return StressTestCreate.model_validate(body | fields)


def repeated(play: Play, command: str) -> dict[str, Any]:
    """The request that the command line makes of a printed command."""
    script = play(run_answer(), run_answer("completed", 3), summary_answer(a_summary()))
    name, *words = shlex.split(command)
    assert name == "counterpose"
    shown = run(*words)
    assert script.seen, shown.stderr
    found: dict[str, Any] = json.loads(script.seen[0].content)
    return found


def test_every_field_of_a_stress_test_is_repeated() -> None:
    assert OTHER_THAN_DEFAULT.keys() | SPECIAL == StressTestCreate.model_fields.keys()


@pytest.mark.parametrize("field", [*OTHER_THAN_DEFAULT, None])
def test_the_command_line_makes_the_same_request_of_the_command(play: Play, field: str | None) -> None:
    own = {} if field is None else {field: OTHER_THAN_DEFAULT[field]}
    request = request_of(**own)
    told = StressTestCreate.model_validate(repeated(play, repeat_command(request)))
    assert told == request
    assert repeat_notes(request) == []


def test_given_pairs_are_repeated_by_the_name_of_their_dataset(play: Play) -> None:
    request = request_of(transforms={"pairs": "my-pairs"}, max_edits_per_image=0, lance_r_edits_per_image=0)
    assert StressTestCreate.model_validate(repeated(play, repeat_command(request))) == request


def test_all_options_of_one_run_stand_in_one_command(play: Play) -> None:
    request = request_of(
        **OTHER_THAN_DEFAULT,
        classifiers=["timm:resnet50", "hf:google/vit", "oip:http://models/v2/models/own"],
    )
    assert StressTestCreate.model_validate(repeated(play, repeat_command(request))) == request


def test_images_outside_a_suite_are_tested_by_operations_with_the_same_classifier(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str | None] = []
    monkeypatch.setattr(stress_test, "require_suite", lambda suite, url: started.append(suite))
    request = request_of(**OTHER_THAN_DEFAULT, classifiers=["timm:vit_base", "leaning-resnet"])
    down, command = operations_command(request).split(" && ")
    assert down == "counterpose down"
    told = StressTestCreate.model_validate(repeated(play, command))
    same = {name: OTHER_THAN_DEFAULT[name] for name in ("limit", "exclude", "label_map", "task")}
    # The miniature suite's own classifier knows its rendered world alone.
    assert told == request_of(**same, classifiers=["timm:vit_base", "timm:resnet50"])
    assert started == ["photographs"]


def test_a_function_is_called_as_it_was_typed(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mynet.py").write_text("def predict(images): return [[1.0, 0.0]] * len(images)\n")
    monkeypatch.chdir(tmp_path)
    typed = ["counterpose stress-test demo --classifier py:mynet:predict --seed 0"]
    for _ in range(2):
        asked = repeated(play, typed[-1])
        assert asked.pop("functions").keys() == {"mynet.predict"}
        typed.append(repeat_command(request_of(**asked)))
    assert typed[0] == typed[1] == typed[2]


def test_an_object_of_a_program_has_a_place_for_a_function_and_a_note() -> None:
    request = request_of(classifiers=["EfficientNet"], function_specs={"EfficientNet": None})
    assert f"--classifier {FUNCTION}" in repeat_command(request)
    assert repeat_notes(request) == [
        f"'EfficientNet' was an object of a program: write a function for {FUNCTION}"
    ]


def test_an_edit_that_cannot_be_typed_is_left_to_a_note() -> None:
    request = request_of(interventions=[{"removed": "bus", "added": "tram, taxi"}])
    assert "--edit" not in repeat_command(request)
    (note,) = repeat_notes(request)
    assert note == "no --edit says that “bus” becomes “tram, taxi”: a program passed it"


def test_a_proof_is_asked_for_again_with_its_images_dataset_and_seed(play: Play) -> None:
    proof = Proof(
        parent=PARENT, finding=a_finding(number=2), wordings=[], images=12, family=2,
        change=SuspectedChange(edit_type="background", removed="rain", added=""),
    )  # fmt: skip
    script = play(ok({"runs": [json.loads(a_run("completed", 3, PARENT).model_dump_json())]}), run_answer())
    shown = run(*shlex.split(repeat_command(request_of(dataset="more"), proof))[1:], "--detach")
    assert shown.exit_code == 0, shown.stderr
    assert script.seen[-1].url.path == f"/v1/runs/{PARENT}/findings/2/prove"
    assert json.loads(script.seen[-1].content) == {"images": 12, "dataset": "more", "seed": 17}
