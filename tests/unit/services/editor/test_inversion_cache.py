"""Cached inversions: found under equal inputs, and recomputed under others or if damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_services.editor.caches import CaptionedImage, InversionCache, inversion_part

SOURCE = CaptionedImage("0" * 64, "a red bus")
PRESET = PromptToPromptPreset(steps=3)
MADE = Inverted(torch.randn(1, 4, 2, 2, 2), torch.randn(1, 1, 5, 3), torch.zeros(1, 3, dtype=torch.int64))


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def cache(store: BlobStore, revision: str = "r", precision: str = "float32") -> InversionCache:
    return InversionCache(
        store, model={"revision": revision}, precision=precision, device=torch.device("cpu")
    )


def test_inversions_are_shared_between_processes(store: BlobStore) -> None:
    cache(store).keep(SOURCE, PRESET, MADE)
    found = cache(store).find(SOURCE, PRESET)
    assert found is not None
    assert found.trajectory.equal(MADE.trajectory)
    assert found.uncond.equal(MADE.uncond)
    assert found.inner_iterations.equal(MADE.inner_iterations)


@pytest.mark.parametrize(
    ("source", "preset"),
    [
        (CaptionedImage("1" * 64, SOURCE.caption), PRESET),
        (CaptionedImage(SOURCE.image, "a blue bus"), PRESET),
        (SOURCE, PRESET.model_copy(update={"steps": 4})),
        (SOURCE, PRESET.model_copy(update={"inversion": "negative-prompt"})),
    ],
)
def test_different_inputs_are_a_cache_miss(
    source: CaptionedImage, preset: PromptToPromptPreset, store: BlobStore
) -> None:
    cache(store).keep(SOURCE, PRESET, MADE)
    assert cache(store).find(source, preset) is None


@pytest.mark.parametrize(("revision", "precision"), [("other", "float32"), ("r", "bfloat16")])
def test_different_weights_or_precision_are_a_cache_miss(
    revision: str, precision: str, store: BlobStore
) -> None:
    cache(store).keep(SOURCE, PRESET, MADE)
    assert cache(store, revision, precision).find(SOURCE, PRESET) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("guidance", 9.0), ("self_replace", (0.1,)), ("word_weight", 1.0), ("inner_steps", 3)],
)
def test_direct_inversions_are_shared_across_unused_settings(field: str, value: object) -> None:
    assert inversion_part(PRESET.model_copy(update={field: value})) == inversion_part(PRESET)


@pytest.mark.parametrize(
    ("field", "value"),
    [("guidance", 9.0), ("inner_steps", 3), ("inner_learning_rate", 0.5), ("inner_tolerance", 0.1)],
)
def test_null_text_inversions_depend_on_guidance_and_their_settings(field: str, value: object) -> None:
    preset = PRESET.model_copy(update={"inversion": "null-text"})
    assert inversion_part(preset.model_copy(update={field: value})) != inversion_part(preset)


def kept_file(store: BlobStore) -> Path:
    assert store.derived is not None
    (file,) = (path for path in store.derived.rglob("*") if path.is_file())
    return file


def test_an_evicted_inversion_is_computed_again(store: BlobStore) -> None:
    cache(store).keep(SOURCE, PRESET, MADE)
    kept_file(store).unlink()
    assert cache(store).find(SOURCE, PRESET) is None


def test_a_damaged_inversion_is_computed_again(store: BlobStore) -> None:
    cache(store).keep(SOURCE, PRESET, MADE)
    file = kept_file(store)
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert cache(store).find(SOURCE, PRESET) is None


def test_an_unreadable_inversion_is_computed_again(store: BlobStore) -> None:
    cache(store).keep(SOURCE, PRESET, MADE)
    file = kept_file(store)
    # Named by the image that it is of, and by the key.
    of, _, key = file.name.partition(".")
    store.keep(file.parent.parent.name, key, b"no tensors", of=of)
    assert cache(store).find(SOURCE, PRESET) is None
