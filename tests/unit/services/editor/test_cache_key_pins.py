"""The keys of what the editor caches, pinned by value: the names of hashed fields are data.

Under another key an image is inverted again, an edit starts again from the beginning, and a preview is made
again. A pin changes only in a commit that says which keys change and why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.inversion.inversion import Inverted
from counterpose_core.editing.sweep import Fork
from counterpose_services.editor.caches import CaptionedImage, ForkCache, InversionCache, PreviewedLatents

ITEM = EditItem(image="0" * 64, caption="a red bus", edited_caption="a blue bus")
PRESET = PromptToPromptPreset(backend="prompt-to-prompt", steps=4, self_replace=(0.2, 0.9), preview=True)
NULL_TEXT = PRESET.model_copy(update={"inversion": "null-text"})


class KeyedStore(BlobStore):
    """A store that remembers the keys under which something was kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.keys: list[tuple[str, str]] = []

    def keep(self, kind: str, key: str, data: bytes, *, of: str = "") -> None:
        self.keys.append((kind, key))
        super().keep(kind, key, data, of=of)


def about(store: BlobStore) -> dict[str, Any]:
    return {
        "store": store, "model": {"revision": "r"}, "precision": "float32", "device": torch.device("cpu"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("preset", "key"),
    [
        (PRESET, "58eac5cd1f2fb397eda03a0cb1e904ffa7ee024d025b85c7e53c01fbf9482a68"),
        (NULL_TEXT, "d257f7eb534195a0fb99c539bbcc6e3ca4f780eb83292133133a2377f51b68fe"),
    ],
)
def test_an_inversion_has_the_key_on_record(preset: PromptToPromptPreset, key: str, tmp_path: Path) -> None:
    store = KeyedStore(tmp_path)
    made = Inverted(torch.zeros(1, 5, 1, 1, 1), torch.zeros(1, 4, 1), torch.zeros(4, dtype=torch.int64))
    InversionCache(**about(store)).keep(CaptionedImage(ITEM.image, ITEM.caption), preset, made)
    assert store.keys == [("inversion", key)]


def test_the_forks_of_an_edit_have_the_key_on_record(tmp_path: Path) -> None:
    store = KeyedStore(tmp_path)
    ForkCache(**about(store)).keep(ITEM, PRESET, [], [Fork(1, torch.zeros(1, 1, 1), None, None)])
    assert store.keys == [("sweep-fork", "9afeec936ffaff975868e156adf93d5664b607ce03566e4e0fafe06db9f090c8")]


def test_the_latents_behind_previews_have_the_keys_on_record(tmp_path: Path) -> None:
    store = KeyedStore(tmp_path)
    PreviewedLatents(**about(store)).keep(ITEM, PRESET, PRESET.self_replace, torch.zeros(2, 1, 1, 1))
    assert store.keys == [
        ("previewed", "b0f3ee7ded0d38834780b10919f9c041fda3ca1cfed7d6acd5092d25f4e67cbe"),
        ("previewed", "d693ce99fab61f755a680f03934294413bc690b24c3ce0bc81435b6329bee561"),
    ]
