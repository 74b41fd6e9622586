"""A suite whose editor is a server of images: what it may say, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import InvalidRequest
from counterpose_core.suite import load_suite
from counterpose_core.suite_servers import SuiteServers, with_servers
from fakes.suite_servers import SERVERS

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
    assert suite.editor.capabilities.abilities == {"instruction", "mask"}
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


def test_the_suite_api_asks_the_user_s_servers_and_keeps_lance_s_scorer() -> None:
    suite, lance = load_suite("api", SERVERS), load_suite("lance")
    assert {suite.captioner.server, suite.perturber.server} == {SERVERS.language_server}
    assert {suite.captioner.model, suite.perturber.model} == {SERVERS.language_model}
    assert (suite.editor.server, suite.editor.model) == (SERVERS.images_server, SERVERS.images_model)
    assert suite.editor.capabilities.abilities == {"instruction", "mask", "seeded"}
    assert suite.editor.redraw_preset == suite.editor.presets["api"]
    assert (suite.scorer, suite.classifiers) == (lance.scorer, lance.classifiers)


def test_the_suite_api_names_all_addresses_that_are_not_set() -> None:
    with pytest.raises(InvalidRequest) as caught:
        load_suite("api")
    assert caught.value.detail == (
        "the suite 'api' asks servers of yours; set COUNTERPOSE_LANGUAGE_SERVER, COUNTERPOSE_LANGUAGE_MODEL, "
        "COUNTERPOSE_IMAGES_SERVER, COUNTERPOSE_IMAGES_MODEL for gateway and services"
    )
    with pytest.raises(InvalidRequest, match=r"yours; set COUNTERPOSE_IMAGES_MODEL for"):
        load_suite("api", SERVERS.model_copy(update={"images_model": None}))


def test_a_file_on_the_suite_api_needs_only_the_addresses_that_it_leaves_in(tmp_path: Path) -> None:
    text = EDITOR.replace('"miniature"', '"api"')
    language = SuiteServers(**SERVERS.model_dump(include={"language_server", "language_model"}))
    suite = load_suite(written(tmp_path, text), language)
    assert (suite.name, suite.editor.server) == ("own", "https://images.example/v1")
    assert suite.captioner.server == SERVERS.language_server
    with pytest.raises(
        InvalidRequest, match=r"refers to '\$image_server', which is no setting; there are \$l"
    ):
        load_suite(written(tmp_path, text.replace("https://images.example/v1", "$image_server")), SERVERS)


def test_a_setting_is_referred_to_from_a_list_and_from_its_tables() -> None:
    sections: dict[str, Any] = {
        "classifiers": {"names": ["a", "$images_model", {"server": "$images_server"}]}
    }
    assert with_servers("own", sections, SERVERS)["classifiers"] == {
        "names": ["a", SERVERS.images_model, {"server": SERVERS.images_server}]
    }
    with pytest.raises(InvalidRequest, match="set COUNTERPOSE_IMAGES_SERVER, COUNTERPOSE_IMAGES_MODEL for"):
        with_servers("own", sections, None)


def test_a_setting_is_referred_to_by_its_name_alone_and_from_any_table() -> None:
    sections: dict[str, Any] = {
        "captioner": {"labelled_prefix": "$ a photo of {label}"},
        "editor": {"presets": {"api": {}}},
    }
    assert with_servers("own", sections, SERVERS) == sections
    sections["editor"]["presets"]["api"] = {"size": "$images_model"}
    told = with_servers("own", sections, SERVERS)
    assert told["editor"] == {"presets": {"api": {"size": SERVERS.images_model}}}
    sections["editor"]["presets"]["api"] = {"size": "$image_size"}
    with pytest.raises(InvalidRequest, match=r"refers to '\$image_size', which is no setting"):
        with_servers("own", sections, SERVERS)
