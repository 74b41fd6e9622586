"""A suite whose editor is a server of images: what it may say, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import load_suite

EDITOR = """
base = "miniature"

[editor]
model = "qwen-image-edit"
server = "https://images.example/v1"
resolution = 64
default_preset = "api"
redraw = "api"

[editor.presets.api]
backend = "images-api"
"""


def written(folder: Path, text: str) -> str:
    file = folder / "own.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_suite_names_a_server_of_images_on_any_base(tmp_path: Path) -> None:
    suite = load_suite(written(tmp_path, EDITOR))
    preset = suite.editor.presets["api"]
    assert isinstance(preset, ImagesApiPreset)
    assert (preset.template, preset.sweep, preset.loads_weights) == ("both-captions", (1.0,), False)
    assert suite.editor.capabilities.abilities == {"instruction"}
    assert suite.editor.redraw_preset == preset
    assert suite.captioner == load_suite("miniature").captioner


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('server = "https://images.example/v1"\n', "", "which asks a server; add its address"),
        ('backend = "images-api"', "steps = 4", "which asks no server, but the model is at"),
        (
            "resolution = 64",
            'resolution = 64\npreview_decoder = "tiny"',
            "'preview_decoder' is for a model that is",
        ),
        (
            'redraw = "api"',
            'redraw = "api"\ntoken_link_steps = 9',
            "'token_link_steps' is for a model that is loaded",
        ),
        ("example/v1", "example/", "must be a server's address that ends in /v1"),
        ("[editor.presets.api]", "[editor.presets.api]\nself_replace = [0.5]", "no such field"),
        ("[editor.presets.api]", '[editor.presets.api]\nsize = "large"', "such as 1024x1024"),
        ("[editor.presets.api]", '[editor.presets.api]\ntemplate = "own"', "must be 'both-captions'"),
        ('"images-api"', '"image-api"', "'prompt-to-prompt', 'images-api'"),
    ],
)
def test_a_suite_that_asks_for_what_a_server_cannot_do_is_refused_by_name(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in EDITOR
    with pytest.raises(InvalidRequest) as caught:
        load_suite(written(tmp_path, EDITOR.replace(old, new)))
    assert said in caught.value.detail
    # The place of a field is a place in the file.
    assert "presets.api.images-api" not in caught.value.detail


def test_draws_of_a_server_differ_by_a_seed_only_where_it_takes_one() -> None:
    plain = ImagesApiPreset(backend="images-api")
    assert (plain.draws, plain.drawn(5).seed, plain.drawn(5).image_seed) == (True, 5, None)
    seeded = plain.model_copy(update={"seeded": True})
    assert (seeded.draws, seeded.drawn(5).image_seed, seeded.capabilities.seeded) == (True, 5, True)
    with pytest.raises(InvalidRequest, match="has no strengths"):
        plain.with_sweep([0.5])


def test_a_preset_without_a_backend_is_prompt_to_prompt_s_as_before(tmp_path: Path) -> None:
    text = (
        'base = "lance"\n[editor]\nmodel = "m"\nresolution = 64\ndefault_preset = "q"\n[editor.presets.q]\n'
    )
    assert load_suite(written(tmp_path, text)).editor.presets["q"] == PromptToPromptPreset()
    assert "backend" not in PromptToPromptPreset().model_dump()
