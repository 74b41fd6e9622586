"""Suite files: on a base, and refused in sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.errors import CounterposeError, InvalidRequest, UnknownModel
from counterpose_core.suite import load_suite
from counterpose_core.suite_servers import SuiteServers

CAPTIONER = """
[captioner]
engine = "openai"
model = "vision"
server = "https://models.example/v1"
beams = 1
"""


def written(folder: Path, text: str, name: str = "own.toml") -> str:
    """Write a suite file and return its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def refusal(folder: Path, text: str) -> str:
    """The sentence by which a suite file is refused."""
    with pytest.raises(CounterposeError) as refused:
        load_suite(written(folder, text))
    return refused.value.detail


def test_a_file_has_the_sections_of_its_base_that_it_does_not_write(tmp_path: Path) -> None:
    base, own = load_suite("miniature"), load_suite(written(tmp_path, f'base = "miniature"{CAPTIONER}'))
    assert (own.captioner.model, own.captioner.engine) == ("vision", "openai")
    changed = {"name", "captioner_part"}
    assert own.model_dump(exclude=changed) == base.model_dump(exclude=changed)


def test_a_section_that_a_file_writes_is_replaced_whole(tmp_path: Path) -> None:
    own = load_suite(written(tmp_path, f'base = "miniature"{CAPTIONER}'))
    # Its own default, not the base's 22.
    assert own.captioner.text_limit != load_suite("miniature").captioner.text_limit


def test_a_file_on_a_base_is_a_suite_of_its_own_name(tmp_path: Path) -> None:
    assert load_suite(written(tmp_path, 'base = "miniature"')).name == "own"
    assert load_suite(written(tmp_path, 'base = "miniature"\nname = "ours"')).name == "ours"


@pytest.mark.parametrize(
    ("section", "left"),
    [
        ('[judge]\nserver = "https://b.example/v1"\nmodel = "other"', ["clip", "encoder"]),
        ('[encoder]\nmodel = "other"', ["clip", "judge"]),
        ('[scorer]\nclip = "c"\nsentence = "s"\nmasked_lm = "m"', ["encoder", "judge"]),
        (CAPTIONER, ["clip", "encoder", "judge"]),
        (
            '[calibrations.judge]\nagainst = "y"\nright_kept = 1\nwrong_kept = 1\nwrong_dropped = 1\n'
            "right_dropped = 1",
            ["judge"],
        ),
    ],
)
def test_another_model_has_no_calibration_of_its_base_s(
    tmp_path: Path, section: str, left: list[str]
) -> None:
    counts = "against = 'x'\nright_kept = 9\nwrong_kept = 1\nwrong_dropped = 9\nright_dropped = 1\n"
    base = (
        'base = "miniature"\n[judge]\nserver = "https://a.example/v1"\nmodel = "m"\n[encoder]\nmodel = "e"\n'
    )
    base += "".join(f"[calibrations.{name}]\n{counts}" for name in ("clip", "encoder", "judge"))
    written(tmp_path, base, "below.toml")
    own = load_suite(written(tmp_path, f'base = "below.toml"\n{section}'))
    assert sorted(own.calibrations) == left


@pytest.mark.parametrize(("model", "judge"), [("vlm", "vlm at a.example"), ("", "at a.example")])
def test_a_calibration_of_another_judge_is_refused(tmp_path: Path, model: str, judge: str) -> None:
    own = 'base = "miniature"\n[judge]\nserver = "$language_server"\nmodel = "$language_model"\n'
    counts = "against = 'x'\nright_kept = 9\nwrong_kept = 1\nwrong_dropped = 9\nright_dropped = 1\n"
    file = written(tmp_path, f"{own}[calibrations.judge]\n{counts}model = '{judge}'\n")
    servers = {
        host: SuiteServers(language_server=f"https://{host}.example/v1", language_model=model)
        for host in ("a", "b")
    }
    assert load_suite(file, servers["a"]).calibrations["judge"].model == judge
    with pytest.raises(InvalidRequest, match=f"of the judge 'judge' is of '{judge}', and .* calibrate it by"):
        load_suite(file, servers["b"])


def test_a_base_is_a_name_or_a_file_beside_the_one_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    written(tmp_path, f'base = "lance"{CAPTIONER}', "bases/ours.toml")
    own = load_suite(written(tmp_path, 'base = "bases/ours.toml"'))
    assert own.captioner.model == "vision"
    assert own.editor == load_suite("lance").editor


def test_a_base_s_prompts_are_beside_the_base(tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    written(tmp_path, 'base = "lance"\n[perturber]\nmodel = "m"\nprompts = "p.toml"', "bases/ours.toml")
    own = load_suite(written(tmp_path, 'base = "bases/ours.toml"'))
    assert own.perturber.prompts == str(tmp_path / "bases" / "p.toml")


def test_an_unknown_base_is_refused_with_the_name_that_is_near(tmp_path: Path) -> None:
    said = refusal(tmp_path, 'base = "miniatur"')
    assert "no suite is named 'miniatur' (did you mean 'miniature'?)" in said
    with pytest.raises(UnknownModel, match=r"'lanec' \(did you mean 'lance'\?\)"):
        load_suite("lanec")


def test_files_that_are_each_other_s_base_are_refused(tmp_path: Path) -> None:
    written(tmp_path, 'base = "own.toml"', "other.toml")
    assert "own.toml' is its own base" in refusal(tmp_path, 'base = "other.toml"')


def test_a_file_with_two_sections_is_told_of_the_base(tmp_path: Path) -> None:
    said = refusal(tmp_path, f'{CAPTIONER}\n[perturber]\nmodel = "m"')
    assert "it lacks name, description, classifiers; write `base = " in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("base = 3", "must be a suite's name, or a .toml file"),
        ("captioner = ", "is not TOML"),
        (
            'base = "miniature"\n[captionr]\nmodel = "m"',
            "'captionr' is no section (did you mean 'captioner'?)",
        ),
        ('base = "miniature"\n[captioner]\nmodel = "m"\nbeam = 3', "captioner.beam: no such field"),
        ('base = "miniature"\n[captioner]\nmodel = "m"\nbeams = 0', "captioner.beams: must be greater than"),
        (
            'base = "miniature"\n[classifiers]\nallow_timm = "ja"',
            "classifiers.allow_timm: must be true or false",
        ),
        ('base = "miniature"\ncaptioner = "m"', "captioner: must be an object"),
        (
            'base = "miniature"\n[captioner]\nmodel = "m"\nengine = "openai"\nserver = "https://models.example"',
            "captioner.server: must be a server's address that ends in /v1",
        ),
    ],
)
def test_a_file_that_cannot_be_a_suite_is_refused_in_a_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    said = refusal(tmp_path, text)
    assert "own.toml" in said
    assert sentence in said
    assert not any(word in said for word in ("pydantic", "type=", "input_value", "\\A", "\n"))


def test_a_suite_file_that_is_missing_or_a_folder_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"there is no suite file '.*own\.toml'; correct its path"):
        load_suite(str(tmp_path / "own.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InvalidRequest, match=r"folder\.toml' cannot be read: Is a directory"):
        load_suite(str(tmp_path / "folder.toml"))
