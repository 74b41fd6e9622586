"""Retrieval by the miniature's trained CLIP: found pictures show what was asked for."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

import faultline_miniature
from fakes.ports import FakeScorer, fake_services
from fakes.retrieving_benchmarks import retrieving_benchmark
from fakes.world import FakeWorld
from faultline_core.blobs import BlobStore
from faultline_core.class_slot import CLASS_SLOT
from faultline_core.contract.datasets import Dataset, Source
from faultline_core.contract.scorer import EmbedImagesRequest, EmbedResponse, EmbedTextsRequest
from faultline_core.contract.shift_benchmarks import ShiftBenchmarkConfig
from faultline_core.images import encode_raw
from faultline_core.suite import load_suite
from faultline_gateway.ports import Services
from faultline_gateway.workflows.found_pictures import Search, retrieval_manifest, search_pictures
from faultline_gateway.workflows.indices import Indices
from faultline_miniature.world.renderer import render
from faultline_miniature.world.sampling import GENERATOR
from faultline_miniature.world.scene import Scene
from faultline_miniature.world.seeds import DEVELOPMENT, scene_for
from faultline_services.scorer.engine import ScorerEngine

WEIGHTS = Path(faultline_miniature.__file__).parent / "suite" / "weights"
PICTURES, TOP = 300, 4
PLACES = {"grass": "on the grass", "water": "in the water", "snow": "in the snow", "road": "on the road"}


class OfEngine(FakeScorer):
    """The scorer's engine behind its port, and how many pictures it was given."""

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
    """Rendered pictures of a dataset, one file that is none, and the trained CLIP."""

    def __init__(self, store: BlobStore) -> None:
        self.store = store
        drawn = [scene_for(DEVELOPMENT, index, GENERATOR) for index in range(2000, 2000 + PICTURES)]
        self.scenes: dict[str, Scene] = {store.put(encode_raw(render(scene))): scene for scene in drawn}
        self.broken = store.put(b"no picture")
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

    async def search(self, shift: str, class_name: str, indices: Indices) -> Search:
        return await search_pictures(
            await self.config(), shift, class_name, TOP, self.services, self.store, indices=indices
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(BlobStore(str(tmp_path_factory.mktemp("store"))))


async def test_found_pictures_show_the_class_and_the_shift_more_often_than_the_folder(folder: Folder) -> None:
    indices, classes, places = Indices(), [], []
    for name in ("sled", "boat", "kite", "plate"):
        for place in PLACES:
            for found in (await folder.search(place, name, indices)).found:
                scene = folder.scenes[found.picture]
                classes.append(scene.object_class == name)
                places.append(scene.background == place)
    # Of the folder an eighth shows the class, and a sixth the place.
    assert np.mean(classes) > 0.8
    assert np.mean(places) > 0.5


async def test_another_process_finds_the_same_by_the_same_index(folder: Folder) -> None:
    first = await folder.search("snow", "sled", Indices())
    asked = folder.scorer.asked
    second = await folder.search("snow", "sled", Indices())
    assert folder.scorer.asked == asked
    assert second.found == first.found
    assert first.unreadable == {folder.broken: "image-undecodable"}


async def test_the_nearest_are_those_of_every_cosine_written_out(folder: Folder) -> None:
    searched = await folder.search("snow", "sled", Indices())
    engine, pictures = folder.scorer.engine, sorted(folder.scenes)
    images = [
        outcome.unwrap().vector
        for start in range(0, len(pictures), 50)
        for outcome in engine.embed_images(EmbedImagesRequest(images=pictures[start : start + 50])).outcomes
    ]
    text = engine.embed_texts(EmbedTextsRequest(texts=["a photo of a sled in the snow"])).outcomes[0].unwrap()
    cosines = np.asarray(images) @ np.asarray(text.vector)
    best = np.argsort(-cosines, kind="stable")[:TOP]
    assert [found.picture for found in searched.found] == [pictures[row] for row in best]
    assert [found.similarity for found in searched.found] == pytest.approx(cosines[best], abs=1e-5)
