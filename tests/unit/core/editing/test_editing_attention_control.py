import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from counterpose_core.editing.attention_control import (
    CrossEdit,
    PromptToPrompt,
    cross_edit,
    refine,
    replace_words,
    reweight,
)
from counterpose_core.editing.denoiser import AttentionSite
from counterpose_core.editing.prompt_alignment import Alignment, TokenizedPrompt, align
from counterpose_core.errors import AttentionNotHooked
from evaluation.reference.toy_denoisers import draw

LENGTH = 8
SELF, CROSS = AttentionSite("attn1", is_cross=False), AttentionSite("attn2", is_cross=True)


def words(*ids: int) -> TokenizedPrompt:
    return TokenizedPrompt((0, *ids, 1), (None, *range(len(ids)), None))


def maps(seed: int, rows: int = 1, queries: int = 4) -> Tensor:
    return torch.softmax(draw(rows, 2, queries, LENGTH, seed=seed), dim=-1)


def swap() -> Alignment:
    return align(words(5, 6, 7), words(5, 9, 7))


def insertion() -> Alignment:
    return align(words(5, 6), words(5, 9, 6))


@pytest.mark.paper("LANCE-S3.2-p2p")
def test_replace_gives_the_new_word_the_map_of_the_old_one() -> None:
    source, target = maps(1), maps(2)
    assert torch.allclose(replace_words(swap(), LENGTH)(source, target), source)


@pytest.mark.paper("LANCE-S3.2-p2p")
def test_refine_keeps_the_maps_of_new_words() -> None:
    source, target = maps(1), maps(2)
    edited = refine(swap(), LENGTH)(source, target)
    assert torch.allclose(edited[..., 2], target[..., 2])
    kept = [0, 1, 3, 4, 5, 6, 7]
    assert torch.allclose(edited[..., kept], source[..., kept])


def test_refine_shifts_the_maps_of_words_after_an_insertion() -> None:
    source, target = maps(1), maps(2)
    edited = refine(insertion(), LENGTH)(source, target)
    expected = source[..., [0, 1, 1, 2, 3, 4, 5, 6]].clone()
    expected[..., 2] = target[..., 2]
    assert torch.allclose(edited, expected)


def test_extra_padding_maps_to_the_last_source_token() -> None:
    shorter = align(words(5, 9, 6), words(5, 6))
    edited = refine(shorter, LENGTH)(maps(1), maps(2))
    assert torch.allclose(edited, maps(1)[..., [0, 1, 3, 4, 5, 6, 7, 7]])


def test_a_word_of_another_length_splits_attention_evenly() -> None:
    longer = TokenizedPrompt((0, 5, 8, 9, 1), (None, 0, 1, 1, None))
    edited = replace_words(align(words(5, 6), longer), LENGTH)(maps(1), maps(2))
    assert torch.allclose(edited[..., 2], maps(1)[..., 2] / 2)
    assert torch.allclose(edited[..., 3], maps(1)[..., 2] / 2)


def test_an_identical_caption_gives_the_source_maps() -> None:
    same = align(words(5, 6, 7), words(5, 6, 7))
    assert torch.allclose(cross_edit(same, LENGTH, word_weight=2.0)(maps(1), maps(2)), maps(1))


@pytest.mark.paper("LANCE-T6-reweight")
def test_reweight_scales_only_the_named_tokens() -> None:
    plain = replace_words(swap(), LENGTH)
    weighted = reweight(plain, [2], 2.0)(maps(1), maps(2))
    assert torch.allclose(weighted[..., 2], 2 * plain(maps(1), maps(2))[..., 2])
    assert torch.allclose(weighted[..., 3:], plain(maps(1), maps(2))[..., 3:])


@pytest.mark.paper("LANCE-D-punctuation")
def test_captions_determine_replace_or_refine_and_word_weights() -> None:
    swapped, inserted = (cross_edit(each, LENGTH, word_weight=3.0) for each in (swap(), insertion()))
    assert swapped.kept.min() == 1
    assert inserted.kept[0].tolist() == [1, 1, 0, 1, 1, 1, 1, 1]
    for chosen in (swapped, inserted):
        assert chosen.gain[0].tolist() == [1, 1, 3, 1, 1, 1, 1, 1]


def test_a_batch_of_edits_equals_separate_edits() -> None:
    edits = [refine(swap(), LENGTH), cross_edit(insertion(), LENGTH, word_weight=2.0)]
    source, target = maps(1, rows=2), maps(2, rows=2)
    together = CrossEdit.stack(edits)(source, target)
    for row, each in enumerate(edits):
        one = slice(row, row + 1)
        assert torch.allclose(together[one], each(source[one], target[one]))


def heads(seed: int, rows: int, positions: int) -> Tensor:
    return draw(rows, 2, positions, 4, seed=seed)


def control(
    *, cross: CrossEdit | None = None, injected: tuple[bool, bool] = (False, False), collect: bool = False
) -> PromptToPrompt:
    return PromptToPrompt(
        source_of=torch.tensor([0, 0]),
        sources=1,
        cross=cross,
        injected=torch.tensor(injected),
        collect=collect,
    )


@pytest.mark.paper("LANCE-S3.2-self-replace")
def test_self_injection_applies_the_source_map_to_the_target_values() -> None:
    query, key, value = (heads(seed, 5, 9) for seed in (1, 2, 3))
    attended = control(injected=(False, True)).attend(SELF, query, key, value)
    plain = scaled_dot_product_attention(query, key, value)
    source = torch.softmax(query[0] @ key[0].transpose(-1, -2) / 2, dim=-1)
    assert torch.allclose(attended[4], source @ value[4], atol=1e-14)
    assert torch.allclose(attended[:4], plain[:4], atol=1e-14)


def test_large_self_attention_is_never_injected() -> None:
    query, key, value = (heads(seed, 5, 33 * 32) for seed in (1, 2, 3))
    attended = control(injected=(True, True)).attend(SELF, query, key, value)
    assert torch.allclose(attended, scaled_dot_product_attention(query, key, value), atol=1e-14)


@pytest.mark.parametrize("collect", [False, True])
def test_cross_control_changes_only_conditional_targets(collect: bool) -> None:
    query, key, value = heads(1, 5, 9), heads(2, 5, LENGTH), heads(3, 5, LENGTH)
    edit = CrossEdit.stack([replace_words(swap(), LENGTH)] * 2)
    attended = control(cross=edit, collect=collect).attend(CROSS, query, key, value)
    plain = scaled_dot_product_attention(query, key, value)
    source = torch.softmax(query[0] @ key[0].transpose(-1, -2) / 2, dim=-1)
    assert torch.allclose(attended[:3], plain[:3], atol=1e-14)
    assert torch.allclose(attended[3:], source @ value[3:], atol=1e-14)


def test_word_maps_use_the_finest_collected_layers() -> None:
    watching = control(collect=True)
    for positions in (4, 9, 9, 17**2):
        watching.attend(CROSS, heads(1, 5, positions), heads(2, 5, LENGTH), heads(3, 5, LENGTH))
    source, target = watching.word_maps()
    assert source.shape == target.shape == (2, 9, LENGTH)
    assert torch.allclose(source[0], source[1])
    assert torch.allclose(target.sum(dim=-1), torch.ones(2, 9, dtype=torch.float64))
    assert (watching.cross_sites, watching.self_sites) == (4, 0)


def test_word_maps_without_a_fine_enough_layer_raise() -> None:
    with pytest.raises(AttentionNotHooked):
        control(collect=True).word_maps()
