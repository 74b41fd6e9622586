"""Exact retrieval by features, in an order that depends only on images and query."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from numpy.typing import NDArray

from counterpose_core.errors import (
    ArtifactCorrupt,
    BadBackendOutput,
    DatasetEmpty,
    InvalidRequest,
    NumericalFailure,
)
from counterpose_core.images.image_index import ImageIndex

CLIP, FOLDER = "clip@1", "d" * 64
Features = dict[str, NDArray[np.float64]]


def reference(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def drawn(number: int, width: int = 24, *, seed: int = 3) -> Features:
    rows = np.random.default_rng(seed).standard_normal((number, width))
    return {reference(place): row for place, row in enumerate(rows)}


def built(features: Features) -> ImageIndex:
    return ImageIndex.build(features, checkpoint=CLIP, dataset_digest=FOLDER)


def by_hand(features: Features, query: NDArray[np.float64], count: int) -> list[str]:
    """Every cosine written out, without the library; features are kept in float32."""
    kept = {name: (row / np.linalg.norm(row)).astype(np.float32) for name, row in features.items()}
    towards = query / np.linalg.norm(query)
    cosines = {name: float(row.astype(np.float64) @ towards) for name, row in kept.items()}
    return sorted(cosines, key=lambda name: (-round(cosines[name], 6), name))[:count]


@pytest.mark.paper("DI-B-retrieval")
@pytest.mark.parametrize("count", [1, 10, 100])
def test_the_nearest_images_match_a_brute_force_search(count: int) -> None:
    features = drawn(3000)
    index = built(features)
    for seed in range(20):
        query = np.random.default_rng(seed).standard_normal(24)
        found = index.nearest(query, count)
        assert [each.image for each in found] == by_hand(features, query, count)
        similarities = [each.similarity for each in found]
        assert similarities == sorted(similarities, reverse=True)


def test_the_similarity_is_the_cosine() -> None:
    index = built({reference(0): np.array([3.0, 4.0]), reference(1): np.array([0.0, -2.0])})
    found = {each.image: each.similarity for each in index.nearest([5.0, 0.0], 2)}
    assert found == pytest.approx({reference(0): 0.6, reference(1): 0.0})


def test_ties_are_ordered_by_reference() -> None:
    twin = np.array([1.0, 2.0, 2.0])
    twins = {reference(place): twin for place in range(50)}
    found = built(twins | {reference(99): np.array([0.0, 0.0, 1.0])}).nearest(twin, 7)
    assert [each.image for each in found] == sorted(twins)[:7]


def test_differences_within_rounding_are_ties() -> None:
    names = sorted(reference(place) for place in range(30))
    # The later a reference, the nearer its image, by 4e-7 in all.
    angles = np.linspace(9e-4, 0.0, len(names))
    features = {
        name: np.array([np.cos(angle), np.sin(angle)]) for name, angle in zip(names, angles, strict=True)
    }
    found = built(features).nearest([1.0, 0.0], 5)
    assert [each.image for each in found] == names[:5]


def test_images_that_are_nearly_equal_are_mapped_to_the_first_of_a_chain() -> None:
    angles = {reference(number): angle for number, angle in enumerate((0.0, 90.0, 4.0, 2.0))}
    features = {
        image: np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])
        for image, angle in angles.items()
    }
    first, other, end, between = features
    index = built(features)
    # Two degrees are a cosine of 0.9994, four of 0.9976.
    assert index.alike([end, other, between, first], 0.999) == {between: end, first: end}
    assert index.alike([end, first], 0.999) == {}
    assert index.alike([], 0.999) == {}
    with pytest.raises(InvalidRequest, match="has no image"):
        index.alike([reference(99)], 0.999)


def test_the_index_does_not_depend_on_insertion_order() -> None:
    features = drawn(200) | {reference(1000 + place): np.ones(24) for place in range(9)}
    turned = dict(reversed(features.items()))
    assert built(features).to_bytes() == built(turned).to_bytes()
    assert built(features).nearest(np.ones(24), 40) == built(turned).nearest(np.ones(24), 40)


def test_a_small_folder_returns_all_its_images() -> None:
    assert len(built(drawn(3)).nearest(np.ones(24), 10)) == 3


def test_an_index_round_trips() -> None:
    unread = {reference(77): "image-undecodable"}
    index = ImageIndex.build(drawn(60), checkpoint=CLIP, dataset_digest=FOLDER, unreadable=unread)
    again = ImageIndex.from_bytes(index.to_bytes())
    assert again.description == index.description
    assert (again.description.checkpoint, again.description.dataset_digest, len(again)) == (CLIP, FOLDER, 60)
    assert again.description.unreadable == unread
    query = np.random.default_rng(1).standard_normal(24)
    assert again.nearest(query, 20) == index.nearest(query, 20)


def test_an_index_of_another_clip_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match=r"clip@1.*clip@2") as caught:
        built(drawn(3)).require(checkpoint="clip@2", dataset_digest=FOLDER)
    assert caught.value.pointer == "/retrieval"


@pytest.mark.fault("B47")
def test_an_index_of_a_changed_dataset_is_refused_by_digest() -> None:
    index = built(drawn(3))
    index.require(checkpoint=CLIP, dataset_digest=FOLDER)
    with pytest.raises(InvalidRequest, match=rf"changed since.*{FOLDER}.*{'e' * 64}"):
        index.require(checkpoint=CLIP, dataset_digest="e" * 64)


@pytest.mark.fault("B47")
def test_empty_and_unreadable_folders_give_different_errors() -> None:
    with pytest.raises(DatasetEmpty, match=r"no image to search; add"):
        built({})
    unread = {reference(1): "image-undecodable", reference(2): "artifact-missing"}
    with pytest.raises(DatasetEmpty, match="none of 2 can be read"):
        ImageIndex.build({}, checkpoint=CLIP, dataset_digest=FOLDER, unreadable=unread)


def test_invalid_features_are_refused() -> None:
    with pytest.raises(BadBackendOutput, match="shapes"):
        built({reference(0): np.ones(3), reference(1): np.ones(4)})
    with pytest.raises(NumericalFailure):
        built({reference(0): np.zeros(3)})
    index = built({reference(0): np.ones(3)})
    with pytest.raises(BadBackendOutput, match="3 numbers"):
        index.nearest(np.ones(4), 1)
    with pytest.raises(NumericalFailure):
        index.nearest([np.nan, 1.0, 1.0], 1)
    with pytest.raises(InvalidRequest, match="at least one"):
        index.nearest(np.ones(3), 0)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: b"{" + data,
        lambda data: data.replace(b'"format":1', b'"format":2'),
    ],
)
def test_an_invalid_index_file_is_refused(spoil: object) -> None:
    assert callable(spoil)
    with pytest.raises(ArtifactCorrupt):
        ImageIndex.from_bytes(spoil(built(drawn(4)).to_bytes()))
