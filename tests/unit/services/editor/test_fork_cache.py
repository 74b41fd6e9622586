"""Cached forks of the sweep: found only by the same edit, and recomputed if damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.sweep import Fork
from counterpose_services.editor.caches import ForkCache

ITEM = EditItem(image="0" * 64, caption="a red bus", edited_caption="a blue bus")
PRESET = PromptToPromptPreset(steps=10)
FORKS = [Fork(step, torch.full((4, 2, 2), 0.1 * step)) for step in (4, 6)]


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


def cache(store: BlobStore, revision: str = "r", precision: str = "float32") -> ForkCache:
    return ForkCache(store, model={"revision": revision}, precision=precision, device=torch.device("cpu"))


def same(found: list[Fork], expected: list[Fork]) -> bool:
    return [fork.step for fork in found] == [fork.step for fork in expected] and all(
        one.latents.equal(other.latents) for one, other in zip(found, expected, strict=True)
    )


def test_forks_are_read_back_unchanged_by_another_process(store: BlobStore) -> None:
    cache(store).keep(ITEM, PRESET, [], FORKS)
    found = cache(store).find(ITEM, PRESET)
    assert same(found, FORKS)
    assert [fork.heats for fork in found] == [None, None]


def test_forks_of_a_blended_edit_keep_the_accumulated_maps(store: BlobStore) -> None:
    heats = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(1))
    cache(store).keep(ITEM, PRESET, [], [Fork(4, FORKS[0].latents, heats)])
    [found] = cache(store).find(ITEM, PRESET)
    assert found.heats is not None
    assert found.heats.equal(heats)


@pytest.mark.parametrize(
    ("item", "preset"),
    [
        (ITEM.model_copy(update={"image": "1" * 64}), PRESET),
        (ITEM.model_copy(update={"caption": "a red tram"}), PRESET),
        (ITEM.model_copy(update={"edited_caption": "a green bus"}), PRESET),
        (ITEM, PRESET.model_copy(update={"guidance": 4.0})),
        (ITEM, PRESET.model_copy(update={"word_weight": 1.0})),
        (ITEM, PRESET.model_copy(update={"local_blend": True})),
    ],
)
def test_a_different_edit_is_a_cache_miss(
    item: EditItem, preset: PromptToPromptPreset, store: BlobStore
) -> None:
    cache(store).keep(ITEM, PRESET, [], FORKS)
    assert cache(store).find(item, preset) == []


@pytest.mark.parametrize(("revision", "precision"), [("other", "float32"), ("r", "bfloat16")])
def test_different_weights_or_precision_are_a_cache_miss(
    revision: str, precision: str, store: BlobStore
) -> None:
    cache(store).keep(ITEM, PRESET, [], FORKS)
    assert cache(store, revision, precision).find(ITEM, PRESET) == []


@pytest.mark.parametrize("damage", [b"", b"no tensors", None])
def test_a_damaged_or_missing_fork_is_a_cache_miss(
    damage: bytes | None, store: BlobStore, tmp_path: Path
) -> None:
    cache(store).keep(ITEM, PRESET, [], FORKS)
    [blob] = (path for path in (tmp_path / "derived").rglob("*") if path.is_file())
    blob.unlink() if damage is None else blob.write_bytes(damage)
    assert cache(store).find(ITEM, PRESET) == []


def test_new_forks_are_added_and_known_ones_are_not_rewritten(store: BlobStore, tmp_path: Path) -> None:
    cache(store).keep(ITEM, PRESET, FORKS[:1], FORKS[1:])
    assert {fork.step for fork in cache(store).find(ITEM, PRESET)} == {4, 6}
    written = sorted(tmp_path.rglob("*"))
    cache(store).keep(ITEM, PRESET, FORKS, FORKS[1:])
    cache(store).keep(ITEM, PRESET, FORKS, [])
    assert sorted(tmp_path.rglob("*")) == written
