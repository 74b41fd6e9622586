"""Retrieval in a benchmark: the prompt's nearest pictures of a dataset, from an index that is made once."""

from __future__ import annotations

import asyncio

import pytest

from fakes.ports import FakeScorer, fake_services
from fakes.retrieving_benchmarks import retrieving_benchmark
from fakes.world import FakeWorld, Shown, fake_dataset
from faultline_core.class_slot import CLASS_SLOT
from faultline_core.contract.base import Outcome, Problem
from faultline_core.contract.datasets import Dataset
from faultline_core.contract.scorer import EmbedImagesRequest, EmbedResponse, EmbedTextsRequest
from faultline_core.contract.shift_benchmarks import RetrievalManifest
from faultline_core.errors import (
    BackendUnavailable,
    DatasetEmpty,
    FaultlineError,
    ImageUndecodable,
    InvalidRequest,
    PromptTooLong,
)
from faultline_core.types import Cost
from faultline_gateway.ports import Services
from faultline_gateway.workflows.found_pictures import (
    INDEX_KIND,
    Search,
    retrieval_manifest,
    search_pictures,
)
from faultline_gateway.workflows.indices import Indices

SNOW = f"a photo of a {CLASS_SLOT} in the snow"
CAPTIONS = (
    "a photo of an apple in the snow", "a photo of a boat in the snow", "a photo of an apple", "a kite",
)  # fmt: skip


class WordScorer(FakeScorer):
    """Features are a caption's words, so that the nearest picture shows most words of the query."""

    def __init__(self, world: FakeWorld, revision: str = "0") -> None:
        super().__init__(world)
        self.revision = revision
        self.problems: dict[str, FaultlineError] = {}
        self.batches: list[int] = []

    def vector(self, text: str) -> list[float]:
        shown = self.world.shown[text].caption if text in self.world.shown else text
        known = sorted({word for caption in CAPTIONS for word in caption.split()})
        return [float(word in shown.split()) + 0.01 for word in known]

    async def embed_images(self, request: EmbedImagesRequest) -> EmbedResponse:
        await asyncio.sleep(0)
        self.batches.append(len(request.images))
        answer = self._with_revision(await super().embed_images(request))
        outcomes = [
            Outcome(problem=Problem.of(self.problems[image])) if image in self.problems else outcome
            for image, outcome in zip(request.images, answer.outcomes, strict=True)
        ]
        return answer.model_copy(update={"outcomes": outcomes, "cost": Cost(clip_passes=len(outcomes))})

    async def embed_texts(self, request: EmbedTextsRequest) -> EmbedResponse:
        return self._with_revision(await super().embed_texts(request))

    def _with_revision(self, answer: EmbedResponse) -> EmbedResponse:
        return answer.model_copy(
            update={"model": answer.model.model_copy(update={"revision": self.revision})}
        )


class Scene:
    """A dataset with one picture a caption, a scorer, and indices of a process's own."""

    def __init__(self, captions: tuple[str, ...] = CAPTIONS) -> None:
        self.world = FakeWorld()
        self.pictures = {
            caption: self.world.add(Shown("thing", caption), number)
            for number, caption in enumerate(captions)
        }
        self.scorer, self.indices = WordScorer(self.world), Indices()

    @property
    def services(self) -> Services:
        return fake_services(self.world, scorer=self.scorer)

    async def manifest(self) -> RetrievalManifest:
        sources = [
            self.world.source("plate", 0).model_copy(update={"image": ref}) for ref in self.pictures.values()
        ]
        return await retrieval_manifest(dataset_of(len(sources)), sources, self.world.store)

    async def search(self, class_name: str = "apple", count: int = 2, **changes: object) -> Search:
        config = retrieving_benchmark({"snow": SNOW}, await self.manifest()).model_copy(update=changes)
        return await search_pictures(
            config, "snow", class_name, count, self.services, self.world.store, indices=self.indices
        )


def dataset_of(number: int) -> Dataset:
    return fake_dataset(number).model_copy(update={"digest": f"{number:064x}"})


async def test_the_pictures_nearest_to_the_shift_s_prompt_come_first() -> None:
    scene = Scene()
    found = [each.picture for each in (await scene.search(count=3)).found]
    assert found == [scene.pictures[caption] for caption in (CAPTIONS[0], CAPTIONS[1], CAPTIONS[2])]
    # The name is put in as the prompt of a name is: "an apple".
    assert (await scene.search(count=1)).found[0].similarity == pytest.approx(1.0)
    assert len((await scene.search(count=99)).found) == len(CAPTIONS)


async def test_a_folder_is_embedded_once_and_paid_for_once() -> None:
    scene = Scene()
    # Both hands of a worker ask at the same time, and nobody has an index yet.
    first, second = await asyncio.gather(scene.search(), scene.search("boat"))
    assert scene.scorer.calls["embed_images"] == 1
    assert first.cost.clip_passes + second.cost.clip_passes == len(CAPTIONS)
    assert (await scene.search()).cost == Cost()


async def test_another_process_finds_the_index_in_the_store() -> None:
    scene = Scene()
    here = await scene.search()
    scene.indices = Indices()
    there = await scene.search()
    assert scene.scorer.calls["embed_images"] == 1
    assert there.found == here.found


async def test_an_index_that_was_damaged_is_made_again() -> None:
    scene = Scene()
    here = await scene.search()
    for key in scene.world.store.noted:
        scene.world.store.noted[key] = scene.world.store.put(b"rubbish")
    scene.indices = Indices()
    assert (await scene.search()).found == here.found
    assert scene.scorer.calls["embed_images"] == 2


async def test_a_dataset_that_changed_is_embedded_anew() -> None:
    scene = Scene()
    await scene.search()
    newer = "a photo of an apple in the snow at sea"
    scene.pictures[newer] = scene.world.add(Shown("thing", newer), "newer")
    found = (await scene.search("apple", 99)).found
    assert scene.pictures[newer] in [each.picture for each in found]


async def test_another_clip_gets_an_index_of_its_own() -> None:
    scene = Scene()
    assert (await scene.search()).checkpoint == "fake-clip@0"
    scene.scorer.revision = "1"
    assert (await scene.search()).checkpoint == "fake-clip@1"
    assert scene.scorer.calls["embed_images"] == 2


async def test_an_index_of_another_state_of_the_dataset_is_refused() -> None:
    scene = Scene()
    await scene.search()
    (index,) = scene.world.store.noted.values()
    older = scene.world.store.blobs[index]
    manifest = await scene.manifest()
    scene.world.store.blobs[index] = older.replace(manifest.digest.encode(), b"f" * 64)
    scene.indices = Indices()
    with pytest.raises(InvalidRequest, match="changed since it was indexed"):
        await scene.search()


async def test_the_clip_may_not_change_while_a_folder_is_embedded() -> None:
    scene = Scene()

    async def exchanged(request: EmbedTextsRequest) -> EmbedResponse:
        answer = await WordScorer(scene.world).embed_texts(request)
        scene.scorer.revision = "1"
        return answer

    scene.scorer.embed_texts = exchanged  # type: ignore[method-assign]
    with pytest.raises(BackendUnavailable, match=r"fake-clip@0.*fake-clip@1"):
        await scene.search()
    assert not scene.world.store.noted


async def test_unreadable_pictures_are_left_out_and_named() -> None:
    scene = Scene()
    lost = scene.pictures[CAPTIONS[0]]
    scene.scorer.problems[lost] = ImageUndecodable("no picture")
    searched = await scene.search(count=99)
    assert lost not in [each.picture for each in searched.found]
    assert searched.unreadable == {lost: "image-undecodable"}
    assert len(searched.found) == len(CAPTIONS) - 1


async def test_a_passing_failure_fails_the_search_and_leaves_no_index() -> None:
    scene = Scene()
    lost = scene.pictures[CAPTIONS[0]]
    scene.scorer.problems[lost] = BackendUnavailable("busy")
    with pytest.raises(BackendUnavailable):
        await scene.search()
    assert not scene.world.store.noted
    scene.scorer.problems.clear()
    assert (await scene.search(count=1)).found[0].picture == lost


async def test_a_folder_without_a_picture_is_refused() -> None:
    with pytest.raises(DatasetEmpty, match="'empty' holds no picture") as caught:
        await retrieval_manifest(dataset_of(0).model_copy(update={"name": "empty"}), [], FakeWorld().store)
    assert caught.value.pointer == "/retrieval"
    scene = Scene()
    scene.scorer.problems = dict.fromkeys(scene.pictures.values(), ImageUndecodable("no picture"))
    with pytest.raises(DatasetEmpty, match=f"none of {len(CAPTIONS)} can be read"):
        await scene.search()


async def test_a_prompt_that_clip_cannot_read_whole_finds_nothing() -> None:
    scene = Scene()

    async def refused(request: EmbedTextsRequest) -> EmbedResponse:
        answer = await WordScorer(scene.world).embed_texts(request)
        problem = Problem.of(PromptTooLong("90 tokens"))
        return answer.model_copy(update={"outcomes": [Outcome(problem=problem)]})

    scene.scorer.embed_texts = refused  # type: ignore[method-assign]
    with pytest.raises(PromptTooLong, match="90 tokens"):
        await scene.search()
    assert scene.scorer.calls["embed_images"] == 0


async def test_a_benchmark_without_retrieval_or_such_a_shift_is_refused() -> None:
    scene = Scene()
    with pytest.raises(InvalidRequest, match="without a dataset"):
        await scene.search(retrieval=None)
    with pytest.raises(InvalidRequest, match="no shift 'snow'"):
        await scene.search(shifts=[])


async def test_a_large_folder_goes_in_batches_of_what_a_call_may_have() -> None:
    scene = Scene(tuple(f"a photo of {number}" for number in range(300)))
    await scene.search()
    assert sorted(scene.scorer.batches) == [44, 64, 64, 64, 64]


async def test_only_so_many_indices_are_kept_in_memory() -> None:
    scene = Scene()
    scene.indices = Indices(kept=1)
    await scene.search()
    scene.scorer.revision = "1"
    await scene.search()
    ((kind, _), *_) = scene.world.store.noted
    assert kind == INDEX_KIND
    ref = next(iter(scene.world.store.noted.values()))
    del scene.world.store.blobs[ref]
    scene.scorer.revision = "0"
    # Neither in memory nor in the store: it is embedded once more.
    await scene.search()
    assert scene.scorer.calls["embed_images"] == 3
