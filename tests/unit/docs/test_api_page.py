"""The suite of the page on models by address is read as it stands, with the settings of the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counterpose_core.suite import Suite, load_suite
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.openai_api.connect import listed_server
from counterpose_services.openai_api.terms import image_terms, language_terms
from counterpose_services.settings import ServiceSettings

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "api.md").read_text(encoding="utf-8")


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """As a reader writes it down."""
    [block] = re.findall(r"```toml\n# (\S+)\n(.*?)```", PAGE, flags=re.DOTALL)
    file = tmp_path / block[0]
    file.write_text(block[1], encoding="utf-8")
    return load_suite(str(file))


def test_it_edits_and_repeats_an_image_by_a_seed_and_loads_no_generator(suite: Suite) -> None:
    assert suite.editor.capabilities.abilities == {"instruction", "mask", "seeded"}
    assert suite.editor.redraw_preset == suite.editor.presets["api"]
    assert {suite.captioner.engine, suite.perturber.engine} == {"openai"}
    assert suite.scorer == load_suite("lance").scorer


def test_the_settings_of_the_page_list_its_hosts_and_send_its_keys(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exported = dict(re.findall(r"(COUNTERPOSE_SERVICES_\w+)=(\S+)", PAGE))
    assert len(exported) == 4
    for name, value in exported.items():
        monkeypatch.setenv(name, value)
        if value.endswith(".key"):
            Path(value).touch(mode=0o600)
            Path(value).write_text("a key of the page", encoding="utf-8")
    settings = ServiceSettings.model_validate({"store_url": str(tmp_path), "state_dir": tmp_path})
    assert suite.editor.server is not None
    assert suite.perturber.server is not None
    for url, terms in (
        (suite.editor.server, image_terms(settings)),
        (suite.perturber.server, language_terms(settings)),
    ):
        listed_server(url, terms).close()
    assert ImagesApi.kind == suite.editor.presets["api"].backend
