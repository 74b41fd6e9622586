"""Which texts of a document name blobs: digests, also those inside recipes of images."""

from __future__ import annotations

from counterpose_core.contract.recipes import Recipe
from counterpose_gateway.ledger.blobs import refs_in

SOURCE, MASK, OTHER = "a" * 64, "b" * 64, "c" * 64


def test_digests_are_read_in_lists_maps_and_recipes() -> None:
    recipe = Recipe(SOURCE, "background-photograph", level=1, mask=MASK, other=OTHER)
    document = {"image": str(recipe), "more": [{"plain": "d" * 64}], "number": 3}
    assert set(refs_in(document)) == {SOURCE, MASK, OTHER, "d" * 64}


def test_digests_of_pixels_and_texts_that_only_look_like_recipes_name_none() -> None:
    texts = [f"sha256:{SOURCE}", f"{SOURCE}/", f"{SOURCE}/rotation", SOURCE.upper(), SOURCE[:63]]
    assert list(refs_in(texts)) == []
