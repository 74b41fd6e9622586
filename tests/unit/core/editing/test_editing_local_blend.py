import pytest
import torch

from counterpose_core.editing.local_blend import BlendWords, blend, heat_mask, word_heat
from counterpose_core.editing.prompt_alignment import TokenizedPrompt, align
from evaluation.reference.toy_denoisers import draw

SOURCE, TARGET = draw(2, 8, 8, seed=1), draw(2, 8, 8, seed=2)
COLD = torch.zeros(4, 4, dtype=torch.float64)


def spot(row: int, column: int, size: int = 4, height: float = 1.0) -> torch.Tensor:
    heat = torch.zeros(size, size, dtype=torch.float64)
    heat[row, column] = height
    return heat


@pytest.mark.paper("LANCE-D-local-blend")
def test_latents_outside_the_mask_equal_the_source_exactly() -> None:
    heats = torch.stack([COLD, spot(0, 0)])
    blended, mask = blend(SOURCE, TARGET, heats), heat_mask(heats[1], (8, 8)).bool()
    assert torch.equal(blended[:, mask], TARGET[:, mask])
    assert torch.equal(blended[:, ~mask], SOURCE[:, ~mask])
    assert mask.sum() == 16


def test_words_of_both_captions_open_the_mask() -> None:
    heats = torch.stack([spot(0, 0), spot(3, 3)])
    changed = (blend(SOURCE, TARGET, heats) == TARGET).all(dim=0)
    assert changed[0, 0]
    assert changed[7, 7]
    assert not changed[0, 7]


def test_without_changed_words_the_blend_is_the_source() -> None:
    assert torch.equal(blend(SOURCE, TARGET, torch.stack([COLD, COLD])), SOURCE)


def test_the_mask_excludes_heat_below_a_third_of_the_peak() -> None:
    heat = spot(0, 0, size=8) + spot(7, 7, size=8, height=0.29) + spot(0, 7, size=8, height=0.31)
    mask = heat_mask(heat, (8, 8))
    assert [mask[0, 0].item(), mask[7, 7].item(), mask[0, 7].item()] == [1, 0, 1]


def test_heat_is_the_attention_of_the_marked_words() -> None:
    maps = torch.softmax(draw(9, 5, seed=3), dim=-1)
    marks = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    assert torch.allclose(word_heat(maps, marks), (maps[:, 1] + maps[:, 3]).reshape(3, 3))


def test_blend_words_are_those_that_differ() -> None:
    source = TokenizedPrompt((0, 5, 6, 1), (None, 0, 1, None))
    target = TokenizedPrompt((0, 5, 9, 8, 1), (None, 0, 1, 2, None))
    words = BlendWords.of(align(source, target), 6)
    assert words.source.tolist() == [0, 0, 1, 0, 0, 0]
    assert words.target.tolist() == [0, 0, 1, 1, 0, 0]
