"""The settings of the page on models by address make its suite, list its hosts and send its keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from counterpose._cli.spending import read_prices
from counterpose_core.contract.spending import SpendingLimits
from counterpose_core.suite import Suite, load_suite
from counterpose_gateway.records.spending import Allotment
from counterpose_services.editor.images_api import ImagesApi
from counterpose_services.openai_api.connect import listed_server
from counterpose_services.openai_api.terms import image_terms, language_terms
from counterpose_services.settings import ServiceSettings

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "api.md").read_text(encoding="utf-8")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceSettings:
    """As a reader exports them."""
    monkeypatch.chdir(tmp_path)
    exported = dict(re.findall(r"(COUNTERPOSE_\w+)=(\S+)", PAGE.partition("counterpose-services check")[0]))
    assert len(exported) == 7
    for name, value in exported.items():
        monkeypatch.setenv(name, value)
        if value.endswith(".key"):
            Path(value).touch(mode=0o600)
            Path(value).write_text("a key of the page", encoding="utf-8")
    return ServiceSettings.model_validate({"store_url": str(tmp_path), "state_dir": tmp_path})


def block(first_line: str) -> str:
    """What the page writes into a file, from the line after ``first_line`` on."""
    [text] = re.findall(rf"```toml\n{re.escape(first_line)}\n(.*?)```", PAGE, flags=re.DOTALL)
    return str(text)


def require_servers_of(suite: Suite, settings: ServiceSettings) -> None:
    assert suite.editor.server is not None
    assert suite.perturber.server is not None
    for url, terms in (
        (suite.editor.server, image_terms(settings)),
        (suite.perturber.server, language_terms(settings)),
    ):
        listed_server(url, terms).close()


def test_the_settings_of_the_page_are_all_that_its_servers_need(settings: ServiceSettings) -> None:
    suite = load_suite(settings.suite, settings)
    require_servers_of(suite, settings)
    assert ImagesApi.kind == suite.editor.presets["api"].backend
    assert {suite.captioner.engine, suite.perturber.engine} == {"openai"}


def test_the_page_s_own_suite_is_read_as_it_stands(settings: ServiceSettings, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('base = "api"\n' + block('base = "api"'), encoding="utf-8")
    suite = load_suite(str(file), settings)
    require_servers_of(suite, settings)
    # What the page says of servers that take no seed.
    assert suite.editor.capabilities.abilities == {"instruction", "mask"}
    assert suite.scorer == load_suite("lance").scorer


def test_its_prices_are_those_of_all_models_that_it_calls(settings: ServiceSettings, tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(block("# prices.toml"), encoding="utf-8")
    limits = SpendingLimits(usd=5.0, prices=read_prices(str(file)))
    found = Allotment.required(limits, load_suite(settings.suite, settings))
    assert found.prices.keys() == {"captioner", "perturber", "editor"}
    assert (found.unpriced, found.unused) == ([], [])
