from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from counterpose_core.editing.attention_control import CrossEdit, cross_edit
from counterpose_core.editing.denoiser import (
    AttentionControl,
    AttentionSite,
    Cancellation,
    CountingDenoiser,
    Denoiser,
    never,
)
from counterpose_core.editing.edit import Edited, EditSettings, EditTask
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.inversion.null_text import NullTextSettings
from counterpose_core.editing.local_blend import BlendWords
from counterpose_core.editing.noise_schedule import NoiseSchedule
from counterpose_core.editing.prompt_alignment import Alignment, TokenizedPrompt, align
from counterpose_core.errors import AttentionNotHooked, Cancelled
from evaluation.reference.plain_driver import (
    direct_inversion,
    edit,
    negative_prompt_inversion,
    null_text_inversion,
)
from evaluation.reference.plain_editing import Blend, Carried, invert, null_text, prompt_to_prompt
from evaluation.reference.toy_denoisers import LENGTH, WIDTH, TinyAttention, draw, linear

STEPS = 5
TABLE = NoiseSchedule().timetable(STEPS)
NULL = draw(LENGTH, WIDTH, seed=9)
CLEAN, TEXT = draw(2, 2, 4, 4, seed=5), draw(2, LENGTH, WIDTH, seed=6)
EDITED_TEXT = draw(3, LENGTH, WIDTH, seed=7)
SWEEP = (0.2, 0.4, 0.8)


def words(*ids: int) -> TokenizedPrompt:
    return TokenizedPrompt((0, *ids, 1), (None, *range(len(ids)), None))


SWAP, INSERTION = align(words(5, 6, 7), words(5, 9, 7)), align(words(5, 6), words(5, 9, 6))
SAME, REMOVAL = align(words(5, 6, 7), words(5, 6, 7)), align(words(5, 9, 6), words(5, 6))
LONGER_WORD = TokenizedPrompt((0, 5, 8, 9, 1), (None, 0, 1, 1, None))
SPREAD, MERGED = align(words(5, 6), LONGER_WORD), align(LONGER_WORD, words(5, 6))
# By hand, from the papers' description: bos, words, then end mark and padding in order.
BY_HAND: dict[str, tuple[Alignment, Carried, dict[int, float]]] = {
    "replace": (SWAP, {j: [(j, 1.0)] for j in range(LENGTH)}, {2: 2.0}),
    "refine": (INSERTION, {0: [(0, 1.0)], 1: [(1, 1.0)], 3: [(2, 1.0)], 4: [(3, 1.0)],
                           5: [(4, 1.0)], 6: [(5, 1.0)]}, {2: 2.0}),
    "removal": (REMOVAL, {0: [(0, 1.0)], 1: [(1, 1.0)], 2: [(3, 1.0)], 3: [(4, 1.0)],
                          4: [(5, 1.0)], 5: [(6, 1.0)], 6: [(6, 1.0)]}, {}),
    "one token for two": (MERGED, {0: [(0, 1.0)], 1: [(1, 1.0)], 2: [(2, 1.0), (3, 1.0)], 3: [(4, 1.0)],
                                   4: [(5, 1.0)], 5: [(6, 1.0)], 6: [(6, 1.0)]}, {2: 2.0}),
    "two tokens for one": (SPREAD, {0: [(0, 1.0)], 1: [(1, 1.0)], 2: [(2, 0.5)], 3: [(2, 0.5)],
                                    4: [(3, 1.0)], 5: [(4, 1.0)], 6: [(5, 1.0)]}, {2: 2.0, 3: 2.0}),
}  # fmt: skip


def controls(alignment: Alignment) -> CrossEdit:
    return cross_edit(alignment, LENGTH, word_weight=2.0)


def direct() -> Inverted:
    return direct_inversion(TinyAttention(), TABLE, CLEAN, TEXT, NULL)


def run(
    tasks: Sequence[EditTask],
    inverted: Inverted,
    *,
    model: Denoiser | None = None,
    guidance: float = 3.0,
    sweep: tuple[float, ...] = SWEEP,
    batch: int = 16,
    cancelled: Cancellation = never,
) -> Edited:
    settings = EditSettings(guidance=guidance, cross_replace=0.6, self_replace=sweep, batch=batch)
    return edit(model or TinyAttention(), TABLE, inverted, TEXT, tasks, settings, cancelled=cancelled)


def three_tasks() -> list[EditTask]:
    rows = zip((0, 1, 0), (SWAP, INSERTION, INSERTION), EDITED_TEXT, strict=True)
    return [EditTask(source, text, controls(alignment)) for source, alignment, text in rows]


def nulls() -> list[Tensor]:
    return [NULL[None]] * STEPS


@pytest.mark.paper("LANCE-S3.2-p2p", "LANCE-D-weights-once")
@pytest.mark.parametrize("kind", sorted(BY_HAND))
def test_direct_edits_match_the_oracle_at_every_sweep_value(kind: str) -> None:
    alignment, carried, gains = BY_HAND[kind]
    task = EditTask(1, EDITED_TEXT[0], controls(alignment))
    fast = run([task], direct()).latents[0]
    path = invert(TinyAttention(), CLEAN[1:], TEXT[1:], STEPS)
    for value, fraction in enumerate(SWEEP):
        source, target = prompt_to_prompt(
            TinyAttention(), path, (TEXT[1:], EDITED_TEXT[:1]), nulls(), carried=carried, gains=gains,
            guidance=3.0, cross_steps=3, self_steps=round(fraction * STEPS), pinned=True,
        )  # fmt: skip
        assert torch.allclose(source, CLEAN[1:], atol=1e-10)
        assert torch.allclose(fast[value], target[0], atol=1e-10, rtol=0)


@pytest.mark.parametrize("weight", [0.0, 0.25, 4.0])
def test_reweighted_edits_match_the_oracle(weight: float) -> None:
    alignment, carried, _ = BY_HAND["refine"]
    task = EditTask(0, EDITED_TEXT[0], cross_edit(alignment, LENGTH, word_weight=weight))
    path = invert(TinyAttention(), CLEAN[:1], TEXT[:1], STEPS)
    _, target = prompt_to_prompt(
        TinyAttention(), path, (TEXT[:1], EDITED_TEXT[:1]), nulls(), carried=carried, gains={2: weight},
        guidance=3.0, cross_steps=3, self_steps=2, pinned=True,
    )  # fmt: skip
    fast = run([task], direct(), sweep=(0.4,)).latents[0, 0]
    assert torch.allclose(fast, target[0], atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("kind", "removed", "added"), [("replace", [2], [2]), ("refine", [], [2]), ("removal", [2], [])]
)
def test_blended_edits_match_the_oracle(kind: str, removed: list[int], added: list[int]) -> None:
    alignment, carried, gains = BY_HAND[kind]
    # Strong contrast, so that the words look somewhere and not everywhere.
    clean, text = 6 * draw(1, 2, 6, 6, seed=5), TEXT[:1]
    inverted = direct_inversion(TinyAttention(), TABLE, clean, text, NULL)
    task = EditTask(0, EDITED_TEXT[0], controls(alignment), BlendWords.of(alignment, LENGTH))
    settings = EditSettings(guidance=3.0, cross_replace=0.6, self_replace=(0.4,))
    fast = edit(TinyAttention(), TABLE, inverted, text, [task], settings).latents[0, 0]
    _, target = prompt_to_prompt(
        TinyAttention(), invert(TinyAttention(), clean, text, STEPS), (text, EDITED_TEXT[:1]), nulls(),
        carried=carried, gains=gains, guidance=3.0, cross_steps=3, self_steps=2, pinned=True,
        blend=Blend(removed, added),
    )  # fmt: skip
    assert torch.allclose(fast, target[0], atol=1e-9, rtol=0)
    kept = (fast == clean[0]).all(dim=0)
    assert 0 < int(kept.sum()) < kept.numel()


def test_velocity_model_edits_match_the_oracle() -> None:
    alignment, carried, gains = BY_HAND["refine"]
    table = NoiseSchedule(prediction="v_prediction").timetable(STEPS)
    inverted = direct_inversion(TinyAttention(), table, CLEAN, TEXT, NULL)
    settings = EditSettings(guidance=3.0, cross_replace=0.6, self_replace=(0.4,))
    task = EditTask(0, EDITED_TEXT[0], controls(alignment))
    fast = edit(TinyAttention(), table, inverted, TEXT, [task], settings).latents[0, 0]
    path = invert(TinyAttention(), CLEAN[:1], TEXT[:1], STEPS, velocity=True)
    _, target = prompt_to_prompt(
        TinyAttention(), path, (TEXT[:1], EDITED_TEXT[:1]), nulls(), carried=carried, gains=gains,
        guidance=3.0, cross_steps=3, self_steps=2, pinned=True, velocity=True,
    )  # fmt: skip
    assert torch.allclose(fast, target[0], atol=1e-10, rtol=0)


def test_null_text_edits_match_the_oracle() -> None:
    alignment, carried, gains = BY_HAND["refine"]
    settings = NullTextSettings(guidance=2.0, inner_steps=3)
    inverted = null_text_inversion(TinyAttention(), TABLE, CLEAN, TEXT, NULL, settings)
    fast = run([EditTask(0, EDITED_TEXT[0], controls(alignment))], inverted, guidance=2.0)
    path = invert(TinyAttention(), CLEAN[:1], TEXT[:1], STEPS)
    plain = null_text(TinyAttention(), path, TEXT[:1], NULL[None], guidance=2.0, inner_steps=3)
    source, target = prompt_to_prompt(
        TinyAttention(), path, (TEXT[:1], EDITED_TEXT[:1]), plain.embeddings, carried=carried, gains=gains,
        guidance=2.0, cross_steps=3, self_steps=2,
    )  # fmt: skip
    assert torch.allclose(inverted.reconstruction[:1], source, atol=1e-10)
    assert torch.allclose(fast.latents[0, 1], target[0], atol=1e-10, rtol=0)


def test_an_identity_edit_returns_the_reconstruction() -> None:
    settings = NullTextSettings(guidance=2.0, inner_steps=3)
    inverted = null_text_inversion(TinyAttention(), TABLE, CLEAN, TEXT, NULL, settings)
    same = EditTask(1, TEXT[1], controls(SAME))
    latents = run([same], inverted, guidance=2.0).latents
    assert torch.allclose(latents[0], inverted.reconstruction[1].expand(3, -1, -1, -1), atol=1e-10)


@pytest.mark.parametrize("guidance", [1.0, 7.5])
def test_an_identity_edit_after_negative_prompt_inversion_returns_the_reconstruction(guidance: float) -> None:
    inverted = negative_prompt_inversion(TinyAttention(), TABLE, CLEAN, TEXT)
    latents = run([EditTask(0, TEXT[0], controls(SAME))], inverted, guidance=guidance).latents
    assert torch.allclose(latents[0], inverted.reconstruction[0].expand(3, -1, -1, -1), atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_edit_does_not_depend_on_its_batch(dtype: torch.dtype) -> None:
    exact = 1e-10 if dtype == torch.float64 else 1e-5
    model = TinyAttention(dtype=dtype)
    whole = direct()
    inverted = Inverted(whole.trajectory.to(dtype), whole.uncond.to(dtype), whole.inner_iterations)
    tasks = [EditTask(task.source, task.text.to(dtype), task.cross) for task in three_tasks()]

    def latents(chosen: Sequence[EditTask], batch: int) -> Tensor:
        settings = EditSettings(guidance=3.0, cross_replace=0.6, self_replace=SWEEP, batch=batch)
        return edit(model, TABLE, inverted, TEXT.to(dtype), chosen, settings).latents

    together = latents(tasks, 16)
    assert together.dtype == dtype
    for batch in (1, 4):
        assert torch.allclose(latents(tasks, batch), together, atol=exact, rtol=0)
    for row, task in enumerate(tasks):
        assert torch.allclose(latents([task], 16)[0], together[row], atol=exact, rtol=0)


def test_sweep_results_keep_the_given_order() -> None:
    forth, back = (run(three_tasks(), direct(), sweep=sweep).latents for sweep in (SWEEP, SWEEP[::-1]))
    assert torch.allclose(forth, back.flip(1), atol=1e-12)
    assert float((forth[:, 0] - forth[:, 2]).abs().max()) > 1e-3


def test_a_nan_image_does_not_affect_its_batch() -> None:
    spoilt = direct()
    spoilt.trajectory[1] = torch.nan
    result = run(three_tasks(), spoilt)
    assert result.finite.tolist() == [True, False, True]
    sound = run(three_tasks(), direct()).latents
    assert torch.allclose(result.latents[[0, 2]], sound[[0, 2]], atol=1e-12)


def test_sweep_values_share_steps_until_injection_ends() -> None:
    counting = CountingDenoiser(TinyAttention())
    result = run(three_tasks(), direct(), model=counting)
    branches = [1] * 1 + [2] * 1 + [3] * 3
    sources = [1] * 4 + [0] * 1
    expected = sum(3 * 2 * n for n in branches) + sum(2 * s for s in sources)
    assert (counting.cost.unet_calls, counting.cost.unet_evaluations) == (STEPS, expected)
    assert sum(cost.unet_evaluations for cost in result.costs) == expected
    assert [cost.unet_calls for cost in result.costs] == [STEPS] * 3


def test_a_model_without_attention_is_refused() -> None:
    inverted = direct_inversion(linear, TABLE, CLEAN, TEXT, NULL)
    with pytest.raises(AttentionNotHooked, match="0 cross"):
        run(three_tasks(), inverted, model=linear)


LATE = TABLE.timesteps[-2]


def stare(latents: Tensor, timestep: Tensor, text: Tensor, control: AttentionControl | None = None) -> Tensor:
    """The linear noise; its control sees a word look at the first position, and at the last one late on."""
    if control is not None:
        query, key = torch.zeros(len(latents), 1, 16, 1), torch.zeros(len(latents), 1, LENGTH, 1)
        query[:, :, 0 if timestep[0] > LATE else -1], key[:, :, 2] = 50.0, 1.0
        control.attend(AttentionSite("attn2", is_cross=True), query, key, key)
        control.attend(AttentionSite("attn1", is_cross=False), query, query, query)
    return linear(latents, timestep, text)


@pytest.mark.paper("LANCE-D-local-blend")
def test_local_blend_leaves_the_rest_of_the_image_unchanged() -> None:
    inverted = direct_inversion(stare, TABLE, CLEAN, TEXT, NULL)
    task = EditTask(0, EDITED_TEXT[0], controls(SWAP), BlendWords.of(SWAP, LENGTH))
    result = run([task], inverted, model=stare).latents[0, 0]
    for corner, inside in (("first", slice(0, 2)), ("last", slice(2, 4))):
        edited, clean = result[:, inside, inside], CLEAN[0][:, inside, inside]
        assert not torch.allclose(edited, clean, atol=1e-3), corner
    outside = torch.ones(4, 4, dtype=torch.bool)
    outside[:2, :2] = outside[2:, 2:] = False
    assert torch.equal(result[:, outside], CLEAN[0][:, outside])


@pytest.mark.paper("LANCE-X-wrong-region")
def test_outside_its_region_an_edit_is_its_image_at_every_sweep_value() -> None:
    region = torch.zeros(4, 4, dtype=torch.bool)
    region[:2, 1:] = True
    bounded = replace(three_tasks()[1], region=region)
    result, whole = run([bounded, three_tasks()[1]], direct()).latents
    assert torch.equal(result[..., ~region], CLEAN[1][..., ~region].expand_as(result[..., ~region]))
    assert not torch.allclose(result[..., region], CLEAN[1][..., region], atol=1e-3)
    # The other edit of the batch may change everything.
    assert not torch.allclose(whole[..., ~region], CLEAN[1][..., ~region], atol=1e-3)


def test_a_region_is_kept_at_every_step_and_not_only_at_the_end() -> None:
    region = torch.zeros(4, 4, dtype=torch.bool)
    region[0, 0] = True
    bounded, whole = (run([replace(three_tasks()[0], region=each)], direct()) for each in (region, None))
    # What lies around it guides what comes inside.
    assert not torch.allclose(bounded.latents[..., region], whole.latents[..., region], atol=1e-6)


def test_blended_and_plain_edits_share_a_batch() -> None:
    blended = EditTask(0, EDITED_TEXT[0], controls(SWAP), BlendWords.of(SWAP, LENGTH))
    plain = EditTask(0, EDITED_TEXT[0], controls(SWAP))
    together = run([blended, plain], direct()).latents
    assert torch.allclose(together[0], run([blended], direct()).latents[0], atol=1e-12)
    assert torch.allclose(together[1], run([plain], direct()).latents[0], atol=1e-12)


def test_cancellation_stops_an_edit_midway() -> None:
    counting, inverted = CountingDenoiser(TinyAttention()), direct()
    with pytest.raises(Cancelled):
        run(three_tasks(), inverted, model=counting, cancelled=lambda: counting.cost.unet_calls >= 4)
    assert counting.cost.unet_calls == 4
