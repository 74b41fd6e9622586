"""The next step of a finding: one command, the same on its card, in Markdown and in the terminal."""

from __future__ import annotations

from html import unescape

import pytest

from counterpose._cli.stress_test import stress_test_text
from counterpose_core.commands import next_step, repeat_command
from counterpose_gateway.methods.stress_test.report.downloads import report_md
from fakes.findings import a_conjunction, a_finding, a_pair
from fakes.reported_findings import page, pairs, shaken, with_findings
from fakes.results import fake_config


@pytest.mark.parametrize(
    ("state", "number", "removed", "proves"),
    [
        ("suspected", 2, "grass", True),
        ("cannot-tell", 2, "grass", True),
        ("breaks", 2, "grass", False),
        ("holds", 2, "grass", False),
    ],
)
def test_a_finding_names_the_command_that_settles_it_or_makes_its_change_in_every_image(
    state: str, number: int, removed: str, proves: bool
) -> None:
    ledgered = shaken()
    known = [a_pair(edit, placebo) for edit, placebo in pairs(ledgered)]
    finding = a_finding(state=state, number=number, removed=removed, added="snow", pairs=known)
    made = with_findings(ledgered, finding)
    prove = f"counterpose prove {made.run_id[:8]} --finding 2 --images 20"
    apply = f"counterpose apply {made.run_id[:8]} --finding 2"
    title, command = ("Next", prove) if proves else ("Next, make this change in every image", apply)
    assert f"{title}: <code>{command}</code>" in page(ledgered, finding)
    if state in ("suspected", "breaks"):
        assert f"{title}: `{command}`" in report_md(made, [finding])


@pytest.mark.parametrize(("left", "images"), [(400, 20), (12, 12)])
def test_a_proof_is_suggested_on_no_more_images_than_are_left(left: int, images: int) -> None:
    finding = a_finding(state="suspected", number=2, removed="grass", added="snow", pairs=[])
    made = with_findings(shaken(), finding).model_copy(
        update={"pairs_left": {2: left}, "least_pairs": {2: 6}}
    )
    step = next_step(made, finding)
    assert step is not None
    assert step.command == f"counterpose prove {made.run_id[:8]} --finding 2 --images {images}"


def test_a_proof_that_what_is_left_would_not_decide_asks_for_more_images() -> None:
    finding = a_finding(state="cannot-tell", number=2, removed="grass", added="snow", pairs=[])
    update = {"pairs_left": {2: 12}, "least_pairs": {2: 6}, "hopeless": [2]}
    step = next_step(with_findings(shaken(), finding).model_copy(update=update), finding)
    assert step is not None
    assert step.title == "The images left of 'sled' would not decide it; add some, then"
    assert step.command.endswith("--finding 2 --images 20 --dataset FOLDER")


@pytest.mark.parametrize("state", ["breaks", "suspected", "cannot-tell", "holds"])
def test_two_conditions_are_tested_again_by_the_run_s_own_command_on_more_images(state: str) -> None:
    ledgered = shaken()
    known = [a_pair(edit, placebo) for edit, placebo in pairs(ledgered)]
    finding = a_conjunction(state=state, number=2, pairs=known)
    made = with_findings(ledgered, finding)
    step = next_step(made, finding)
    assert step is not None
    assert step.title == (
        "Only a new run tests two conditions together again: add images of 'sled' to dataset 'demo', then"
    )
    assert step.command == repeat_command(fake_config().request)
    assert f"{step.title}: <code>{step.command}</code>" in unescape(page(ledgered, finding))
    terminal = stress_test_text(made)
    assert f"  only{step.title[4:]}: {step.command}" in terminal.splitlines()
    if state in ("breaks", "suspected"):
        assert f"`{step.command}`" in report_md(made, [finding])


@pytest.mark.parametrize("state", ["breaks", "suspected"])
def test_various_words_are_told_apart_by_a_run_on_more_images(state: str) -> None:
    ledgered = shaken()
    known = [a_pair(edit, placebo) for edit, placebo in pairs(ledgered)]
    finding = a_finding(state=state, number=2, removed="", added="", pairs=known)
    made = with_findings(ledgered, finding)
    step = next_step(made, finding)
    assert step is not None
    assert step.title.startswith(
        "Its edits change various words, and a larger run may tell which: add images"
    )
    assert step.command == repeat_command(fake_config().request)
    assert f"{step.title}: <code>{step.command}</code>" in unescape(page(ledgered, finding))
    assert f"`{step.command}`" in report_md(made, [finding])


def test_a_run_on_few_images_tests_two_conditions_again_on_all() -> None:
    made = with_findings(shaken(), finding := a_conjunction())
    config = fake_config(limit=3).model_dump(mode="json")
    step = next_step(made.model_copy(update={"config": config}), finding)
    assert step is not None
    assert step.command == repeat_command(fake_config().request)
    strange = made.model_copy(update={"config": {"request": {"of": "another version"}}})
    assert next_step(strange, finding) is None
