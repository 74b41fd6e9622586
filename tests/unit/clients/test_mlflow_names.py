"""What MLflow is told of a run, and what is refused before it is asked; its server: `make test-mlflow`."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest

from faultline._mlflow import _client, metrics, params
from faultline_core.errors import InvalidRequest


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "./mlruns"])
def test_a_store_of_files_is_refused_with_what_to_do(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", ModuleType("mlflow"))
    with pytest.raises(InvalidRequest, match=r"sqlite:///mlflow\.db"):
        _client(uri)


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InvalidRequest, match=r"pip install 'faultline\[mlflow\]'"):
        _client("http://127.0.0.1:5000")


def test_names_have_the_letters_that_mlflow_takes() -> None:
    figures = {"models": {"oip:http://x/y?z": {"drop": {"estimate": 0.5, "low": None, "high": 1.0, "n": 4}}}}
    assert dict(metrics(figures)) == {
        "models/oip_http_//x/y_z/drop": 0.5,
        "models/oip_http_//x/y_z/drop.high": 1.0,
        "models/oip_http_//x/y_z/drop.n": 4.0,
    }
    assert dict(metrics({"findings": [1, 2], "note": "text", "on": True, "none": None})) == {"findings": 2.0}


def test_parameters_are_flat_and_cut() -> None:
    found = dict(params({"request": {"seed": 3, "none": None}, "classes": ["x"] * 400, "suite": "tiny"}))
    assert (found["request.seed"], found["suite"]) == ("3", "tiny")
    assert "request.none" not in found
    assert len(found["classes"]) == 500
    assert json.loads(found["request.seed"]) == 3
