"""The reference oracle: its two parity modes, and its word maps compared with the product's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from counterpose_core.editing.attention_control import cross_edit, refine, reweight
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from counterpose_core.types import TokenAlignment, WeightedWords
from evaluation.reference.plain_alignment import Word, carried_maps
from evaluation.reference.plain_editing import Target, invert, prompt_to_prompt
from evaluation.reference.reference_run import (
    SWEEPS,
    Parity,
    ReferenceRun,
    Tally,
    chosen_value,
    reference_calls,
    reference_evaluations,
    reference_run,
)
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw

CLEAN, TEXT = draw(1, 2, 4, 4, seed=5), draw(1, LENGTH, WIDTH, seed=6)
NULL = draw(1, LENGTH, WIDTH, seed=9)
TARGETS = [
    Target(draw(1, LENGTH, WIDTH, seed=7), {j: [(j, 1.0)] for j in range(LENGTH)}, {2: 2.0}),
    Target(draw(1, LENGTH, WIDTH, seed=8), {0: [(0, 1.0)], 1: [(1, 1.0)]}, {3: 2.0}),
]
STEPS = 5


def run(parity: Parity, targets: list[Target], model: Tally | None = None) -> ReferenceRun:
    return reference_run(
        model or TinyAttention(), CLEAN, TEXT, NULL, targets, parity=parity, steps=STEPS,
        guidance=2.0, inner_steps=2, tolerance=0.0,
    )  # fmt: skip


def alone(made: ReferenceRun, target: Target, gains: dict[int, float], self_steps: int) -> Tensor:
    path = invert(TinyAttention(), CLEAN, TEXT, STEPS)
    _, edited = prompt_to_prompt(
        TinyAttention(), path, (TEXT, target.text), made.inversion.embeddings, carried=target.carried,
        gains=gains, guidance=2.0, cross_steps=4, self_steps=self_steps,
    )  # fmt: skip
    return edited[0]


@pytest.mark.parametrize(("parity", "weighted"), [("released", False), ("paper", True)])
def test_the_released_sweep_forgets_the_weights_after_its_first_value(parity: Parity, weighted: bool) -> None:
    made, target = run(parity, TARGETS), TARGETS[0]
    assert len(made.images) == len(SWEEPS[parity])
    assert torch.allclose(made.images[0][0], alone(made, target, target.gains, 2), atol=1e-12)
    later = alone(made, target, target.gains if weighted else {}, 3)
    assert torch.allclose(made.images[2][0], later, atol=1e-12)
    assert not torch.allclose(later, alone(made, target, {} if weighted else target.gains, 3), atol=1e-6)


def test_evaluations_and_calls_match_the_cost_model() -> None:
    tally = Tally(TinyAttention())
    made = run("paper", TARGETS, tally)
    inner = sum(made.inversion.iterations)
    assert inner == 2 * STEPS
    counts = {"steps": STEPS, "inner": inner, "sweep": len(made.images)}
    assert tally.evaluations == reference_evaluations(**counts, edits=2)
    assert tally.calls == reference_calls(**counts)


def test_the_cost_model_reproduces_the_published_case() -> None:
    cases = {1: 2910, 5: 1062}
    for edits, published in cases.items():
        whole = reference_evaluations(steps=50, inner=470, sweep=6, edits=edits)
        assert whole / edits == pytest.approx(published, rel=1e-3)


PHOTO, DOG, BIG, ON, SNOW = (3,), (4,), (5, 6), (7,), (8,)
PAIRS: dict[str, tuple[list[Word], list[Word]]] = {
    "swap": ([PHOTO, DOG, ON], [PHOTO, SNOW, ON]),
    "swap of another length": ([PHOTO, BIG, ON], [PHOTO, SNOW, ON]),
    "insertion": ([PHOTO, DOG], [PHOTO, BIG, DOG]),
    "removal": ([PHOTO, BIG, DOG], [PHOTO, DOG]),
    "two places": ([DOG, ON, SNOW, PHOTO], [SNOW, DOG, PHOTO, BIG]),
    "repetition": ([DOG, ON, SNOW], [DOG, SNOW, DOG]),
    "nothing": ([DOG, ON], [DOG, ON]),
    "nothing in common": ([DOG], [SNOW, ON]),
}


def prompt(words: list[Word]) -> TokenizedPrompt:
    numbered = [(token, number) for number, word in enumerate(words) for token in word]
    return TokenizedPrompt((0, *(t for t, _ in numbered), 1), (None, *(n for _, n in numbered), None))


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("tokens", ["words", "released"])
@pytest.mark.parametrize("weighted", ["added", "released"])
@pytest.mark.parametrize("case", sorted(PAIRS))
def test_oracle_word_maps_match_the_product(
    case: str, replace: bool, tokens: TokenAlignment, weighted: WeightedWords
) -> None:
    source, target = PAIRS[case]
    carried, added = carried_maps(source, target, 9, replace=replace, tokens=tokens, weighted=weighted)
    mapper, kept, gain = torch.zeros(9, 9), torch.zeros(9), torch.ones(9)
    for place, parts in carried.items():
        kept[place] = 1.0
        for origin, weight in parts:
            mapper[origin, place] = weight
    gain[added] = 2.0
    aligned = align(prompt(source), prompt(target))
    product = cross_edit(aligned, 9, word_weight=2.0, tokens=tokens, weighted=weighted)
    if not replace:
        positions = aligned.repeated if weighted == "released" else aligned.added
        product = reweight(refine(aligned, 9, tokens), positions, 2.0)
    assert torch.equal(product.kept[0].float(), kept)
    assert torch.equal(product.mapper[0].float(), mapper * kept)
    assert torch.equal(product.gain[0].float(), gain)


@pytest.mark.parametrize(("parity", "kept"), [("released", 3), ("paper", 1)])
def test_each_rule_selects_its_sweep_value(parity: Parity, kept: int) -> None:
    directions = [0.3, 0.5, 0.9, 0.4]
    assert chosen_value([True, True, False, True], directions, parity) == kept
    assert chosen_value([False] * 4, directions, parity) is None
