"""Names near to one that nothing has."""

from __future__ import annotations

import pytest

from counterpose_core.text.near_names import did_you_mean


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("demoo", "demo"),
        ("leaning-resnett", "leaning-resnet"),
        ("Leaning_ResNet", "leaning-resnet"),
        ("boatt", "boat"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_that_is_near(name: str, meant: str) -> None:
    assert (
        did_you_mean(name, ["demo", "leaning-vit", "leaning-resnet", "boat"]) == f" (did you mean {meant!r}?)"
    )


def test_names_that_have_the_word_come_before_one_that_is_spelt_like_it() -> None:
    names = ["crate", "tabby, tabby cat", "Egyptian_cat", "tiger cat", "Persian cat", "cattle"]
    assert (
        did_you_mean("Cat", names) == " (did you mean 'tabby, tabby cat' or 'Egyptian_cat' or 'tiger cat'?)"
    )


@pytest.mark.parametrize("name", ["cat", "", "resnet50"])
def test_a_name_that_is_near_to_none_is_answered_with_none(name: str) -> None:
    assert did_you_mean(name, ["car", "dog", "demo"]) == ""
