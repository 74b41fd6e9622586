"""Retrieval by the miniature's trained CLIP: retrieved images show the requested class and shift."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

import counterpose_miniature
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.datasets import Dataset, Source
from counterpose_core.contract.scorer import EmbedImagesRequest, EmbedResponse, EmbedTextsRequest
from counterpose_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import load_suite
from counterpose_core.text.class_prompts import CLASS_SLOT
from counterpose_gateway.methods.shift_benchmark.images import (
    KEPT,
    Search,
    retrieval_manifest,
    search_images,
)
from counterpose_gateway.services.ports import Services
from counterpose_gateway.summaries.cache import RunCache
from counterpose_miniature.world.renderer import render
from counterpose_miniature.world.sampling import GENERATOR
from counterpose_miniature.world.scene import Scene
from counterpose_miniature.world.seeds import DEVELOPMENT, scene_for
from counterpose_services.scorer.engine import ScorerEngine
from fakes.ports import FakeScorer, fake_services
from fakes.retrieval_benchmarks import retrieving_benchmark
from fakes.world import FakeWorld

WEIGHTS = Path(counterpose_miniature.__file__).parent / "suite" / "weights"
IMAGES, TOP = 300, 4
PLACES = {"grass": "on the grass", "water": "in the water", "snow": "in the snow", "road": "on the road"}


class OfEngine(FakeScorer):
    """The scorer's engine behind its port, and how many images it was given."""

    def __init__(self, engine: ScorerEngine) -> None:
        super().__init__(FakeWorld())
        self.engine = engine
        self.asked = 0

    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        self.asked += len(request.images)
        return self.engine.embed_images(request)

    async def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        return self.engine.embed_texts(request)


class Folder:
    """Rendered images of a dataset, one file that is none, and the trained CLIP."""

    def __init__(self, store: BlobStore) -> None:
        self.store = store
        drawn = [scene_for(DEVELOPMENT, index, GENERATOR) for index in range(2000, 2000 + IMAGES)]
        self.scenes: dict[str, Scene] = {store.put(encode_raw(render(scene))): scene for scene in drawn}
        self.broken = store.put(b"no image")
        self.scorer = OfEngine(ScorerEngine.load(load_suite("miniature").scorer, WEIGHTS, store))

    @property
    def services(self) -> Services:
        return fake_services(FakeWorld(), scorer=self.scorer)

    async def config(self) -> ShiftBenchmarkConfig:
        sources = [
            Source(id=ref, image=ref, label="any", filename="a.png", width=64, height=64)
            for ref in (*self.scenes, self.broken)
        ]
        dataset = Dataset(
            name="folder", classes=["any"], n_sources=len(sources), digest="d" * 64,
            created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        )  # fmt: skip
        prompts = {name: f"a photo of a {CLASS_SLOT} {words}" for name, words in PLACES.items()}
        return retrieving_benchmark(prompts, await retrieval_manifest(dataset, sources, self.store))

    async def search(self, shift: str, class_name: str, indices: RunCache) -> Search:
        return await search_images(
            await self.config(), shift, class_name, TOP, self.services, self.store, indices=indices
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(BlobStore(str(tmp_path_factory.mktemp("store"))))


async def test_retrieved_images_show_class_and_shift_more_often_than_the_folder(folder: Folder) -> None:
    indices, classes, places = RunCache(KEPT), [], []
    for name in ("sled", "boat", "kite", "plate"):
        for place in PLACES:
            for found in (await folder.search(place, name, indices)).found:
                scene = folder.scenes[found.image]
                classes.append(scene.object_class == name)
                places.append(scene.background == place)
    # Of the folder an eighth shows the class, and a sixth the place.
    assert np.mean(classes) > 0.8
    assert np.mean(places) > 0.5


async def test_another_process_retrieves_the_same_images_from_the_index(folder: Folder) -> None:
    first = await folder.search("snow", "sled", RunCache(KEPT))
    asked = folder.scorer.asked
    second = await folder.search("snow", "sled", RunCache(KEPT))
    assert folder.scorer.asked == asked
    assert second.found == first.found
    assert first.unreadable == {folder.broken: "image-undecodable"}


async def test_nearest_images_match_a_brute_force_search(folder: Folder) -> None:
    searched = await folder.search("snow", "sled", RunCache(KEPT))
    engine, refs = folder.scorer.engine, sorted(folder.scenes)
    vectors = [
        outcome.unwrap().vector
        for start in range(0, len(refs), 50)
        for outcome in engine.embed_images(EmbedImagesRequest(images=refs[start : start + 50])).outcomes
    ]
    text = engine.embed_texts(EmbedTextsRequest(texts=["a photo of a sled in the snow"])).outcomes[0].unwrap()
    cosines = np.asarray(vectors) @ np.asarray(text.vector)
    best = np.argsort(-cosines, kind="stable")[:TOP]
    assert [found.image for found in searched.found] == [refs[row] for row in best]
    assert [found.similarity for found in searched.found] == pytest.approx(cosines[best], abs=1e-5)
