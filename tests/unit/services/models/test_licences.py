"""Gated and non-commercial models: refused before anything starts, unless the settings name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose_core.errors import PolicyRefused
from counterpose_core.suite import PublishedModel
from counterpose_services.models.preflight import licence_refusals, require_licences, restriction
from counterpose_services.serving import launcher
from counterpose_services.settings import SERVICES, ServiceSettings

LLAMA = "huggyllama/llama-7b"


def settings(**values: object) -> ServiceSettings:
    return ServiceSettings.model_validate({"suite": "lance"} | values)


@pytest.mark.parametrize(
    ("entry", "restricted"),
    [
        ({"licence": "mit"}, False),
        ({"licence": "creativeml-openrail-m"}, False),
        ({"licence": "openrail++"}, False),
        ({"licence": "apache-2.0"}, False),
        ({}, False),
        ({"licence": "cc-by-nc-4.0"}, True),
        ({"licence": "llama (non-commercial)"}, True),
        ({"licence": "stabilityai-ai-noncommercial-community"}, True),
        ({"licence": "research-only"}, True),
        ({"licence": "llama3", "gated": True}, True),
        ({"gated": True}, True),
    ],
)
def test_gated_and_non_commercial_licences_are_recognised(entry: dict[str, object], restricted: bool) -> None:
    published = PublishedModel.model_validate({"repository": "maker/net"} | entry)
    assert (restriction(published) is not None) == restricted


def test_a_start_names_model_licence_and_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["up", "--suite", "lance", "--state-dir", str(tmp_path)]) == 3
    told = capsys.readouterr().err
    assert f"the perturber's model '{LLAMA}' has the licence 'llama (non-commercial)'" in told
    assert f"set COUNTERPOSE_SERVICES_ALLOWED_LICENCES={LLAMA}" in told


@pytest.mark.parametrize("allowed", [LLAMA, "llama (non-commercial)", f"other/model,{LLAMA}"])
def test_a_licence_is_allowed_by_the_model_or_its_own_name(
    allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PolicyRefused):
        require_licences(settings(), ["perturber"])
    monkeypatch.setenv("COUNTERPOSE_SERVICES_ALLOWED_LICENCES", allowed)
    require_licences(settings(), SERVICES)


@pytest.mark.parametrize("suite", ["miniature", "dataset-interfaces", "discovering-bugs"])
def test_the_other_suites_need_no_permission(suite: str) -> None:
    assert [licence_refusals(settings(suite=suite), service) for service in SERVICES] == [[]] * len(SERVICES)


def test_an_entry_of_another_model_s_name_permits_nothing() -> None:
    assert len(licence_refusals(settings(allowed_licences=["huggyllama/llama-13b"]), "perturber")) == 1
