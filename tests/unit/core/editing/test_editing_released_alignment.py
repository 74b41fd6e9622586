"""Alignment, weights and ends of injection compared with numbers that prompt-to-prompt's released code made.

`evaluation/reference/released_mappers.py` makes the fixture again; it names the commit and the licence.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from counterpose_core.editing.attention_control import CrossEdit, cross_edit, refine, replace_words
from counterpose_core.editing.prompt_alignment import Alignment, TokenizedPrompt, align
from counterpose_core.injection_steps import cross_steps, leading_steps
from counterpose_core.types import TokenAlignment
from evaluation.reference.plain_alignment import carried_maps
from golden import Golden

FIXTURE = Path(__file__).parents[3] / "fixtures/released-mappers.json"
RELEASED = json.loads(FIXTURE.read_text(encoding="utf-8"))
ALIGNMENTS: dict[str, Any] = RELEASED["alignments"]
OTHER_LENGTH = {
    f"{name}, {length} tokens"
    for name in ("a word by a longer one", "a word by a shorter one")
    for length in (24, 77)
}
"""Pairs in which a word replaces one of another number of tokens."""


def aligned(case: dict[str, Any]) -> Alignment:
    (source, here), (target, there) = case["source"], case["target"]
    return align(
        TokenizedPrompt(tuple(source), tuple(here)),
        TokenizedPrompt(tuple(target), tuple(there)),
    )


REPLACEMENTS = {
    name for name, case in ALIGNMENTS.items() if case["replacement"] and aligned(case).is_replacement
}
"""Pairs in which a word stands for each word."""


def refinement(case: dict[str, Any], tokens: TokenAlignment) -> CrossEdit:
    return refine(aligned(case), case["length"], tokens)


def released_refinement(case: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The released mapper as a matrix (L, L), its columns empty where a token keeps its own map."""
    kept = torch.tensor(case["alphas"], dtype=torch.float64)
    matrix = torch.zeros(case["length"], case["length"], dtype=torch.float64)
    for place, origin in enumerate(case["mapper"]):
        matrix[origin, place] = kept[place]
    return matrix, kept


def released_replacement(case: dict[str, Any]) -> torch.Tensor:
    matrix = torch.zeros(case["length"], case["length"], dtype=torch.float64)
    for i, j, weight in case["replacement"]:
        matrix[i, j] = weight
    return matrix


def test_the_fixture_tells_where_it_comes_from() -> None:
    made_by = RELEASED["made_by"]
    assert made_by["repository"] == "https://github.com/google/prompt-to-prompt"
    assert (len(made_by["commit"]), made_by["licence"]) == (40, "Apache-2.0")
    assert set(made_by["sha256"]) == {"seq_aligner.py", "ptp_utils.py"}
    assert {case["length"] for case in ALIGNMENTS.values()} == {24, 77}


@pytest.mark.paper("LANCE-C-p2p-alignment")
@pytest.mark.parametrize("name", sorted(ALIGNMENTS))
def test_the_released_refinement_matches_the_released_code(name: str, golden: Golden) -> None:
    matrix, kept = released_refinement(ALIGNMENTS[name])
    ours = refinement(ALIGNMENTS[name], "released")
    golden.compare(ours.mapper[0], matrix)
    golden.compare(ours.kept[0], kept)


@pytest.mark.parametrize("length", [24, 77])
@pytest.mark.parametrize("name", ["words added at the end", "words removed at the end"])
def test_alignment_by_words_differs_from_the_released_code_in_the_padding_alone(
    name: str, length: int, golden: Golden
) -> None:
    case = ALIGNMENTS[f"{name}, {length} tokens"]
    matrix, kept = released_refinement(case)
    ours = refinement(case, "words")
    end = len(case["target"][0])
    golden.compare(ours.kept[0], kept)
    golden.compare(ours.mapper[0, :, :end], matrix[:, :end])
    assert not torch.equal(ours.mapper[0, :, end:], matrix[:, end:])


@pytest.mark.parametrize("name", sorted(REPLACEMENTS - OTHER_LENGTH))
def test_the_released_replacement_matches_the_released_code(name: str, golden: Golden) -> None:
    case = ALIGNMENTS[name]
    alignment = aligned(case)
    ours = replace_words(alignment, case["length"], "released")
    golden.compare(ours.mapper[0], released_replacement(case))
    assert torch.equal(ours.kept, torch.ones_like(ours.kept))


@pytest.mark.parametrize("name", sorted(OTHER_LENGTH))
def test_words_after_a_replacement_of_another_length_keep_their_own_maps(name: str, golden: Golden) -> None:
    case = ALIGNMENTS[name]
    alignment = aligned(case)
    ours = replace_words(alignment, case["length"], "released").mapper[0]
    theirs = released_replacement(case)
    [changed] = [number for number, pair in enumerate(alignment.pairs) if not pair.same]
    after, last = alignment.pairs[changed + 1].target[0], alignment.pairs[-1]
    golden.compare(ours[:, :after], theirs[:, :after])
    assert ours[last.source[0], last.target[0]] == 1
    assert theirs[last.source[0], last.target[0]] == 0


@pytest.mark.paper("LANCE-C-p2p-occurrences")
@pytest.mark.parametrize("name", sorted(ALIGNMENTS))
def test_the_released_weights_match_the_released_code(name: str) -> None:
    case = ALIGNMENTS[name]
    edit = cross_edit(aligned(case), case["length"], word_weight=2.0, weighted="released")
    assert (edit.gain[0] != 1).nonzero().flatten().tolist() == case["weighted"]


def test_only_released_weights_reach_a_word_that_both_captions_have() -> None:
    case = ALIGNMENTS["words added at the end, 24 tokens"]
    added = cross_edit(aligned(case), 24, word_weight=2.0)
    shared = set(case["weighted"]) - set((added.gain[0] != 1).nonzero().flatten().tolist())
    assert shared == {1, 4}


@pytest.mark.paper("LANCE-C-p2p-ends")
@pytest.mark.parametrize("asked", sorted(RELEASED["cross_steps"]))
def test_the_released_end_of_cross_injection_matches_the_released_code(asked: str) -> None:
    fraction, steps = asked.split(" of ")
    found = cross_steps(float(fraction), int(steps), "released")
    assert min(found, int(steps)) == RELEASED["cross_steps"][asked]


@pytest.mark.parametrize(("fraction", "steps", "released", "exact"), [(0.5, 5, 3, 2), (0.8, 12, 10, 9)])
def test_cross_injection_ends_a_step_later_as_released(
    fraction: float, steps: int, released: int, exact: int
) -> None:
    assert cross_steps(fraction, steps, "released") == released
    assert cross_steps(fraction, steps) == exact


def test_self_injection_ends_where_the_released_code_truncates() -> None:
    assert leading_steps(0.29, 100, "released") == 28
    assert leading_steps(0.29, 100) == 29


@pytest.mark.parametrize("name", sorted(ALIGNMENTS))
def test_the_reference_aligns_as_the_released_code(name: str) -> None:
    case = ALIGNMENTS[name]
    alignment = aligned(case)
    here, there = (
        [tuple(p.ids[i] for i in span) for span in p.spans()] for p in (alignment.source, alignment.target)
    )
    carried, weighted = carried_maps(
        here, there, case["length"], replace=False, tokens="released", weighted="released"
    )
    matrix, kept = released_refinement(case)
    assert [place in carried for place in range(case["length"])] == kept.bool().tolist()
    for place, parts in carried.items():
        assert parts == [(int(matrix[:, place].argmax()), 1.0)]
    assert sorted(weighted) == case["weighted"]
