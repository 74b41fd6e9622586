"""One class under several prompts: plates on grass and empty plates."""

from __future__ import annotations

import numpy as np
import pytest

from counterpose_core.errors import InvalidRequest
from counterpose_core.shift_benchmark.fine_grained import PromptAccuracy, compare_prompts

N = 50


def images(right: int) -> dict[int, float]:
    """Fifty seeds, of which so many are right."""
    return {seed: float(seed < right) for seed in range(N)}


def plates() -> dict[tuple[str, str], PromptAccuracy]:
    """The paper's example: the token's plates carry food, the name's are empty."""
    answers = {
        "token": {"base": images(45), "in the grass": images(38), "empty": images(3)},
        "class-name": {"base": images(4), "in the grass": images(1)},
    }
    found = compare_prompts(answers, np.random.default_rng(0))
    return {(each.image_source, each.prompt): each for each in found}


def test_accuracies_keep_the_given_order() -> None:
    assert list(plates()) == [
        ("token", "base"), ("token", "in the grass"), ("token", "empty"),
        ("class-name", "base"), ("class-name", "in the grass"),
    ]  # fmt: skip
    assert plates()["token", "in the grass"].accuracy.estimate == pytest.approx(0.76)


def test_a_prompt_is_compared_with_the_base_of_its_source() -> None:
    found = plates()
    grass, name = found["token", "in the grass"].drop, found["class-name", "in the grass"].drop
    assert grass is not None
    assert name is not None
    assert grass.estimate == pytest.approx(0.14)
    assert grass.n == N
    assert name.estimate == pytest.approx(0.06)
    assert found["token", "base"].drop is None


def test_the_base_reports_the_gap_between_name_and_token() -> None:
    found = plates()
    gap, empty = found["class-name", "base"].beside_token, found["token", "empty"].drop
    assert gap is not None
    assert empty is not None
    assert gap.estimate == pytest.approx(0.82)
    assert empty.estimate == pytest.approx(0.84)
    assert found["token", "base"].beside_token is None


def test_only_shared_seeds_are_compared() -> None:
    answers = {"token": {"base": {1: 1.0, 2: 1.0, 3: 0.0}, "empty": {2: 0.0, 3: 0.0, 9: 1.0}}}
    drop = compare_prompts(answers, np.random.default_rng(0))[1].drop
    assert drop is not None
    assert (drop.estimate, drop.n) == (0.5, 2)


def test_without_a_pair_there_is_no_difference() -> None:
    answers = {"class-name": {"base": {1: 1.0}, "empty": {2: 0.0}}}
    found = compare_prompts(answers, np.random.default_rng(0))[1]
    assert found.drop is not None
    assert found.beside_token is not None
    assert (found.drop.n, found.beside_token.n) == (0, 0)


def test_a_source_without_a_base_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'class-name'"):
        compare_prompts({"class-name": {"empty": {1: 1.0}}}, np.random.default_rng(0))
