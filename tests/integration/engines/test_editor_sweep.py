"""A sweep made in several calls: the same images, fewer evaluations, and recovery of lost state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest, EditResponse
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.eviction import evict
from counterpose_core.images.codecs import encode_png
from counterpose_core.types import Inversion
from counterpose_services.editor.engine import EditorEngine
from evaluation.reference.same_answers import LEVELS, Levels, levels_apart, stored_images
from fakes.tiny_pipeline import RESOLUTION, SUITE

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on grass"
SWEEP = (0.25, 0.5, 0.75)
PRESET = PromptToPromptPreset(steps=8, guidance=2.0, inner_steps=2, self_replace=SWEEP)


class Bench:
    """An engine with its own store, so that no earlier results are cached."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.store = folder, BlobStore(str(folder))
        self.engine = EditorEngine.load(SUITE, root, self.store)
        noise = np.random.default_rng(1).integers(0, 256, (RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
        self.item = EditItem(image=self.store.put(encode_png(noise)), caption=CAPTION, edited_caption=EDITED)

    def edit(self, *values: float, preset: PromptToPromptPreset = PRESET) -> EditResponse:
        request = EditRequest(items=[self.item], preset=preset, strength=values or None)
        return self.engine.edit(request)

    def images(self, response: EditResponse) -> Levels:
        variants = response.outcomes[0].unwrap().variants
        return stored_images(self.store, [variant.image for variant in variants])

    def damage(self, kind: str) -> None:
        for kept in (self.folder / "derived" / kind).rglob("*.*"):
            kept.write_bytes(b"rotten")


@pytest.fixture
def bench(root: Path, tmp_path: Path) -> Bench:
    return Bench(root, tmp_path)


@pytest.mark.parametrize("inversion", ["direct", "negative-prompt", "null-text"])
@pytest.mark.parametrize("local_blend", [False, True])
def test_values_tried_one_by_one_match_the_whole_sweep(
    bench: Bench, inversion: Inversion, local_blend: bool
) -> None:
    preset = PRESET.model_copy(update={"inversion": inversion, "local_blend": local_blend})
    one_by_one = [bench.images(bench.edit(value, preset=preset))[0] for value in SWEEP[::-1]][::-1]
    whole = bench.images(bench.edit(preset=preset))
    for lazy, full in zip(one_by_one, whole, strict=True):
        assert levels_apart(lazy, full) <= LEVELS
    assert levels_apart(whole[0], whole[2]) > LEVELS


def test_a_later_value_costs_only_the_steps_after_its_fork(bench: Bench) -> None:
    first, second, third = (bench.edit(value).cost for value in SWEEP[::-1])
    # Eight steps of inversion, eight with two halves; the source is evaluated in the first six.
    assert first.unet_evaluations == 8 + 16 + 6
    # From step four on, two steps with the source's cross-attention; from step two on, four.
    assert second.unet_evaluations == 2 * 4 + 2
    assert third.unet_evaluations == 2 * 6 + 4
    assert (first.vae_passes, second.vae_passes, third.vae_passes) == (2, 1, 1)
    assert bench.edit(0.75).cost.unet_evaluations == 2 * 4 + 2


@pytest.mark.parametrize("lost", ["sweep-fork", "inversion"])
def test_lost_state_is_made_again_with_the_same_result(bench: Bench, lost: str) -> None:
    bench.edit(0.75)
    known = bench.images(bench.edit(0.5))
    bench.damage(lost)
    again = bench.edit(0.5)
    assert levels_apart(bench.images(again), known) <= LEVELS
    evaluations = {"sweep-fork": 16 + 6, "inversion": 8 + 2 * 4 + 2}
    assert again.cost.unet_evaluations == evaluations[lost]
    # The forks are stored again.
    assert bench.edit(0.25).cost.unet_evaluations == 2 * 6 + 4


@contextmanager
def evicting(folder: Path) -> Iterator[list[int]]:
    """Evict all that may go, again and again from another thread; yields what each pass evicted."""
    stop, passes = Event(), list[int]()

    def go_on() -> None:
        while not stop.wait(0.005):
            passes.append(evict(folder / "derived", 1, recent_seconds=0).files)

    thread = Thread(target=go_on)
    thread.start()
    try:
        yield passes
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("inversion", ["direct", "null-text"])
def test_a_budget_below_one_inversion_costs_evaluations_and_changes_no_image(
    bench: Bench, inversion: Inversion
) -> None:
    preset = PRESET.model_copy(update={"inversion": inversion})
    known = [bench.images(bench.edit(value, preset=preset)) for value in SWEEP[::-1]]
    with evicting(bench.folder) as passes:
        again = [bench.edit(value, preset=preset) for value in SWEEP[::-1]]
    assert sum(passes) >= 2, "an inversion and forks went while the edits were made"
    for before, after in zip(known, again, strict=True):
        assert levels_apart(before, bench.images(after)) <= LEVELS
    # Nothing is left of what the sweep would go on from.
    evict(bench.folder / "derived", 0, recent_seconds=0)
    if inversion == "direct":
        assert bench.edit(0.5).cost.unet_evaluations == 8 + 16 + 6


def test_a_fork_is_not_shared_between_edits(bench: Bench) -> None:
    bench.edit(0.75)
    bench.item = bench.item.model_copy(update={"edited_caption": "a blue tram"})
    assert bench.edit(0.5).cost.unet_evaluations == 16 + 6
