"""The seeds of a validation, which hash the names of its figures and its prompts, pinned by value.

A pin changes only in a commit that says which figures or images change and why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import evaluation
from evaluation.validity import assembly, order
from evaluation.validity.agreement import comparison
from evaluation.validity.generation import request_of

FOLDER = Path(evaluation.__file__).parent
PINS: dict[str, int] = {
    "aims": 5_628_945_052_702_073_883,
    "beyond reconstruction": 6_609_441_868_655_958_449,
    "bugs": 10_060_644_720_676_546_487,
    "claims # # #": 3_594_021_434_226_232_061,
    "corrected": 12_796_577_388_350_554_500,
    "detection": 5_443_604_238_789_578_885,
    "drops apart": 14_579_761_224_767_678_041,
    "edits": 10_184_494_205_873_213_449,
    "figures # #": 4_730_476_635_076_940_227,
    "gate": 419_943_247_181_113_242,
    "joint # # #": 409_595_505_789_643_576,
    "labels": 7_506_318_699_509_992_418,
    "novelty": 113_419_385_775_294_843,
    "reconstruction": 15_985_285_610_039_766_481,
    "reliability": 11_556_641_816_370_213_402,
    "scope #": 7_539_243_891_948_026_329,
    "selection": 6_604_843_254_502_285_069,
    "suspected": 10_959_700_870_023_703_168,
    "text filter": 13_109_081_460_073_330_806,
}


def figures() -> Iterator[str]:
    """The names of figures at the call sites of `order.generator`; `#` stands for a value."""
    for folder in ("validity", "two_stages"):
        for path in sorted((FOLDER / folder).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "generator":
                    name = node.args[0]
                    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
                    yield "".join(
                        str(part.value) if isinstance(part, ast.Constant) else "#" for part in parts
                    )


def test_the_call_sites_name_the_figures_on_record() -> None:
    assert sorted(set(figures())) == sorted(PINS)


@pytest.mark.parametrize("figure", PINS)
def test_a_figure_is_drawn_from_the_seed_on_record(figure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = list[int]()
    monkeypatch.setattr(np.random, "default_rng", seeds.append)
    order.generator(figure)
    assert seeds == [PINS[figure]]


def test_the_comparison_with_baselines_is_drawn_from_the_seeds_on_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds, drawing = list[int](), np.random.default_rng

    def noted(seed: int) -> np.random.Generator:
        seeds.append(seed)
        return drawing(seed)

    monkeypatch.setattr(np.random, "default_rng", noted)
    # No rows: only the names count, the tool's own first and then one of each baseline.
    pieces: Any = SimpleNamespace(all_items=[], drawn={})
    comparison([], dict.fromkeys(assembly._guesses([], pieces), np.zeros(0)), order.generator)
    assert seeds == [
        6_712_496_463_789_080_401,
        160_111_842_559_501_162,
        5_523_447_581_858_285_210,
        6_566_827_331_800_438_009,
    ]


def test_a_prompt_is_drawn_from_the_seeds_on_record() -> None:
    seeds = [item.seed for item in request_of("a photo of a red sled").items[:2]]
    assert seeds == [464_249_125_078_451_275, 1_114_962_891_567_226_181]
