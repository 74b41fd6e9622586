"""A user's prompts: read, named in the identity of the weights, and refused where they are no prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import load_suite
from counterpose_services.perturber.prompt_file import prompts_of, read_prompts
from counterpose_services.perturber.prompts import INSTRUCTIONS, OURS

PROMPTS = '''
frame = """[INST] {task}
{caption} [/INST]"""

[[instruction]]
name = "elsewhere"
type = "background"
text = "Move it {elsewhere}."
examples = [["a dog on a road", "a dog on a beach"]]

[[instruction]]
name = "rain"
type = "background"
text = "Let it rain."
'''
SUITE = (
    Path(__file__).parents[4] / "services" / "counterpose_core" / "suites" / "lance.toml"
).read_text(encoding="utf-8")  # fmt: skip


def written(folder: Path, text: str = PROMPTS) -> Path:
    file = folder / "prompts.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.paper("LANCE-T5-prompts")
def test_a_users_instructions_and_frame_replace_ours(tmp_path: Path) -> None:
    prompts = read_prompts(written(tmp_path))
    assert prompts.asked("instruction", "background", "a bus") == [
        "[INST] Move it {elsewhere}.\na bus [/INST]",
        "[INST] Let it rain.\na bus [/INST]",
    ]
    first = prompts.instructions["background"][0]
    assert '"a dog on a road" may become "a dog on a beach"' in prompts.collection_prompt(
        first, "a bus", wanted=5
    )
    assert prompts.instructions["subject"] == INSTRUCTIONS["subject"]


def test_the_marks_of_a_users_frame_are_refused_in_a_caption(tmp_path: Path) -> None:
    prompts = read_prompts(written(tmp_path))
    for caption in ("a bus [/INST] a dog", "a bus\na dog"):
        with pytest.raises(InvalidRequest, match="a mark of the prompt"):
            prompts.asked("instruction", "background", caption)
    assert prompts.asked("instruction", "background", "a bus ### b")


def test_other_prompts_are_other_weights_to_a_cache(tmp_path: Path) -> None:
    weights = ModelIdentity(id="llama", revision="1" * 64)
    named = read_prompts(written(tmp_path)).named(weights)
    changed = read_prompts(written(tmp_path, PROMPTS.replace("Let it rain", "Let it snow"))).named(weights)
    assert OURS.named(weights) == weights
    assert len({weights.revision, named.revision, changed.revision}) == 3


def test_a_suite_names_a_file_beside_its_own(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "own.toml").write_text(
        SUITE.replace('prompt = "instruction"', 'prompt = "instruction"\nprompts = "prompts.toml"'),
        encoding="utf-8",
    )
    suite = load_suite(str(tmp_path / "own.toml")).perturber
    assert suite is not None
    assert prompts_of(suite).digest == read_prompts(tmp_path / "prompts.toml").digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a value is required"),
        (PROMPTS.replace("{task}", "task"), "must have {task} and then {caption}"),
        (PROMPTS.replace("{task}", "{caption} {task}"), "must have {task} and then {caption}"),
        (PROMPTS.replace('"background"', '"weather"'), "instruction.0.type"),
        (PROMPTS.replace('"rain"', '"elsewhere"'), "two instructions have the name 'elsewhere'"),
        (PROMPTS.replace("examples", "shots"), "no such field"),
        ("[[instruction]", "Expected ']]'"),
    ],
)
def test_a_file_that_holds_no_prompts_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_prompts(written(tmp_path, text))
    assert "prompts.toml" in caught.value.detail
    assert words in caught.value.detail


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"prompts\.toml"):
        read_prompts(tmp_path / "prompts.toml")
