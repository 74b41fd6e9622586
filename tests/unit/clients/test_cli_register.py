"""``counterpose register``: what an adversarial dataset kept becomes a dataset that other methods take."""

from __future__ import annotations

import json

import pytest

from counterpose._cli.exit_code import ExitCode
from fakes.command import Play, run
from fakes.sdk import a_run, ok, run_answer

RUN_ID = "3fa8" + "0" * 28
DATASET = {
    "name": "fooling", "classes": ["fly"], "n_sources": 12, "digest": "d" * 12,
    "created_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
MADE = a_run("completed", 3, RUN_ID).model_copy(update={"kind": "adversarial-dataset"})
NONE = ok({"runs": []})
LISTED = [ok({"runs": [json.loads(MADE.model_dump_json())]})]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "fooling\t12 images\n"),
        (
            ["--json"],
            json.dumps(DATASET | {"expires_at": None, "rejected": [], "imported": None}, indent=2) + "\n",
        ),
    ],
)
def test_the_kept_images_become_a_dataset(play: Play, more: list[str], said: str) -> None:
    script = play(*LISTED, ok(DATASET))
    shown = run("register", "3fa8", "fooling", *more)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout == said
    asked = script.seen[-1]
    assert (asked.method, asked.url.path) == ("POST", f"/v1/runs/{RUN_ID}/register")
    assert json.loads(asked.content) == {"name": "fooling"}


def test_a_run_of_another_kind_has_nothing_to_register(play: Play) -> None:
    script = play(run_answer())
    shown = run("register", "run-1", "fooling")
    assert shown.exit_code == ExitCode.USAGE
    assert "run 'run-1' is a stress-test" in shown.stderr
    assert len(script.seen) == 1
