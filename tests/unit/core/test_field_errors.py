"""Refused fields in sentences."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import counterpose_core.contract
from counterpose_core import suite
from counterpose_core.contract.field_errors import checked, sentences
from counterpose_core.contract.stress_tests import StressTestCreate
from counterpose_core.errors import InvalidRequest
from counterpose_core.types import ClassifierSpec

GIVEN = {"dataset": "demo", "classifiers": ["leaning-vit"], "seed": 0}


def refusal(**fields: object) -> str:
    """The sentence by which a stress test with these fields is refused."""
    with pytest.raises(InvalidRequest) as refused:
        checked(StressTestCreate, GIVEN | fields)
    return refused.value.detail


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"dataset": "./photos"}, "dataset: must be a name, not a path"),
        (
            {"dataset": "./photos"},
            "upload a folder first: client.datasets.upload(folder, name=...)",
        ),
        ({"edit_types": "subject"}, "edit_types: must be a list, such as ['subject']"),
        ({"edit_types": ["backgroud"]}, "(did you mean 'background'?)"),
        ({"classifiers": ["torchvision:resnet50"]}, "'torchvision:' is no kind of classifier"),
        ({"classifiers": ["torchvision:resnet50"]}, "as timm:resnet50"),
        ({"classifiers": ["http://host/model"]}, "or oip: and the address of a model server"),
        ({"classifiers": ["my model"]}, "classifiers.0: is no classifier's name; write the name of"),
        (
            {"edit_type": ["subject"]},
            "edit_type: no such field; correct its name, or leave it out (did you mean 'edit_types'?)",
        ),
        ({"limit": 0}, "limit: must be greater than or equal to 1"),
        ({"seed": "0"}, "seed: must be an integer"),
        ({"classifiers": []}, "classifiers: must have at least 1 item, not 0"),
        ({"refused_words": ["two words"]}, "refused_words.0: must be one word"),
    ],
)
def test_a_field_that_is_refused_is_refused_in_a_sentence(fields: dict[str, Any], sentence: str) -> None:
    said = refusal(**fields)
    assert sentence in said
    assert not any(word in said for word in ("pydantic", "pattern", "^", "type=", "\n", "Input"))


def test_a_refusal_of_many_fields_names_the_first() -> None:
    said = refusal(classifiers=["a b"] * 9)
    assert said.count("is no classifier's name") == 5
    assert said.endswith("; and 4 more")


def test_what_was_sent_is_not_repeated_but_to_the_caller_s_own_program() -> None:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(list[int]).validate_python("secret")
    assert sentences(refused.value.errors()) == "must be a list"


def bodies() -> Iterator[Any]:
    """The models of the contract and of suites, and the type of a classifier's name."""
    package = counterpose_core.contract
    names = [each.name for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]
    for module in (suite, *map(importlib.import_module, names)):
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, BaseModel) and each.__module__ == module.__name__:
                yield each
    yield ClassifierSpec


def bare_patterns(schema: object) -> Iterator[str]:
    """The patterns of a core schema whose refusal would show them."""
    if isinstance(schema, dict):
        if schema.get("type") == "custom-error":
            return
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for value in schema.values():
            yield from bare_patterns(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from bare_patterns(value)


def test_every_pattern_has_words_for_its_refusal() -> None:
    found = {str(body): set(bare_patterns(TypeAdapter(body).core_schema)) for body in bodies()}
    assert len(found) > 100
    assert {body: patterns for body, patterns in found.items() if patterns} == {}
