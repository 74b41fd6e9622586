"""The editor behind the images API, asked for edits within a region."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import (
    EditRequest,
)
from counterpose_core.contract.regions import EditRegion
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import Pixels, decode_image, encode_png, encode_raw
from counterpose_core.types import Side
from fakes.images_editor import backend, edited, never, request
from fakes.images_server import ImagesServer, always, drawing, images_server


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(str(tmp_path))


@pytest.fixture
def pixels() -> Pixels:
    return np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)


@pytest.fixture
def image(store: BlobStore, pixels: Pixels) -> str:
    return store.put(encode_raw(pixels))


@pytest.fixture
def server() -> Iterator[ImagesServer]:
    with images_server() as serving:
        yield serving


def bounded(store: BlobStore, image: str, edits: Side = "inside", **preset: object) -> EditRequest:
    """An edit of the left quarter, or of the rest."""
    mask = np.zeros((12, 16, 3), np.uint8)
    mask[:, :4] = 255
    whole = request(image, **preset)
    region = EditRegion(mask=store.put(encode_png(mask)), edits=edits)
    return whole.model_copy(update={"items": [whole.items[0].model_copy(update={"region": region})]})


@pytest.mark.parametrize(("edits", "changed"), [("inside", slice(0, 4)), ("outside", slice(4, None))])
def test_a_server_that_takes_masks_gets_one_that_is_transparent_where_the_image_may_change(
    edits: Side, changed: slice, server: ImagesServer, store: BlobStore, image: str, pixels: Pixels
) -> None:
    engine = backend(server, store, mask=True)
    [variant] = edited(engine, bounded(store, image, edits, mask=True))
    [asked] = server.asked
    assert asked.mask is not None
    assert asked.mask.shape == (12, 16)
    expected = np.full((12, 16), 255)
    expected[:, changed] = 0
    assert np.array_equal(asked.mask, expected)
    assert variant.confined_by == "mask"
    # It answers with its own grain all over: nothing was put back.
    made = decode_image(store.get(variant.image))
    assert (made != pixels)[expected > 0].any()
    assert np.abs(made.astype(int) - pixels)[expected > 0].max() <= 2
    # The whole image is another question, and so is another side.
    edited(engine, request(image, mask=True))
    edited(engine, bounded(store, image, edits, mask=True))
    assert [each.mask is None for each in server.asked] == [False, True]


def test_a_server_that_takes_none_has_the_rest_of_the_source_put_back_over_its_answer(
    server: ImagesServer, store: BlobStore, image: str, pixels: Pixels
) -> None:
    engine = backend(server, store)
    [whole], [variant] = edited(engine, request(image)), edited(engine, bounded(store, image))
    assert (whole.confined_by, variant.confined_by) == (None, "composite")
    made, answer = (decode_image(store.get(each.image)) for each in (variant, whole))
    assert np.array_equal(made[:, 4:], pixels[:, 4:])
    assert np.array_equal(made[:, :4], answer[:, :4])
    # The server was asked for the same image: it is not paid for twice.
    assert len(server.asked) == 1
    assert server.asked[0].mask is None


def test_an_answer_of_another_size_is_laid_on_its_source_before_the_rest_is_put_back(
    server: ImagesServer, store: BlobStore, image: str, pixels: Pixels
) -> None:
    server.answer = always(drawing(encode_png(np.full((24, 32, 3), 7, np.uint8))))
    [variant] = edited(backend(server, store), bounded(store, image))
    made = decode_image(store.get(variant.image))
    assert np.array_equal(made[:, 4:], pixels[:, 4:])
    assert (made[:, :4] == 7).all()
    assert variant.served is not None
    assert (variant.served.size, variant.served.resized) == ((32, 24), True)


def test_a_mask_of_another_size_is_refused_before_the_server_is_asked(
    server: ImagesServer, store: BlobStore, image: str
) -> None:
    mask = store.put(encode_png(np.full((6, 8, 3), 255, np.uint8)))
    whole = request(image, mask=True)
    wrong = whole.items[0].model_copy(update={"region": EditRegion(mask=mask)})
    [outcome] = (
        backend(server, store, mask=True)
        .edit(whole.model_copy(update={"items": [wrong]}), cancelled=never)
        .outcomes
    )
    assert outcome.problem is not None
    assert outcome.problem.code == InvalidRequest.code
    assert "the mask has 8 x 6 pixels, but its image 16 x 12" in outcome.problem.detail
    assert server.asked == []
