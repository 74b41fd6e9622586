"""Retrieval in a benchmark: the dataset images nearest to the prompt, from an index that is built once."""

from __future__ import annotations

import asyncio

import pytest

from counterpose_core.contract.base import Outcome, Problem
from counterpose_core.contract.datasets import Dataset
from counterpose_core.contract.scorer import EmbedImagesRequest, EmbedResponse, EmbedTextsRequest
from counterpose_core.contract.shift_benchmarks import RetrievalManifest
from counterpose_core.errors import (
    BackendUnavailable,
    CounterposeError,
    DatasetEmpty,
    ImageUndecodable,
    InvalidRequest,
    PromptTooLong,
)
from counterpose_core.text.class_prompts import CLASS_SLOT
from counterpose_core.types import Cost
from counterpose_gateway.methods.shift_benchmark.images import (
    INDEX_KIND,
    KEPT,
    Search,
    retrieval_manifest,
    search_images,
)
from counterpose_gateway.services.ports import Services
from counterpose_gateway.summaries.cache import RunCache
from fakes.ports import FakeScorer, fake_services
from fakes.retrieval_benchmarks import retrieving_benchmark
from fakes.world import FakeWorld, Shown, fake_dataset

SNOW = f"a photo of a {CLASS_SLOT} in the snow"
CAPTIONS = (
    "a photo of an apple in the snow", "a photo of a boat in the snow", "a photo of an apple", "a kite",
)  # fmt: skip


class WordScorer(FakeScorer):
    """Features are a caption's words, so that the nearest image shows most words of the query."""

    def __init__(self, world: FakeWorld, revision: str = "0") -> None:
        super().__init__(world)
        self.revision = revision
        self.problems: dict[str, CounterposeError] = {}
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
    """A dataset with one image a caption, a scorer, and indices of a process's own."""

    def __init__(self, captions: tuple[str, ...] = CAPTIONS) -> None:
        self.world = FakeWorld()
        self.images = {
            caption: self.world.add(Shown("thing", caption), number)
            for number, caption in enumerate(captions)
        }
        self.scorer, self.indices = WordScorer(self.world), RunCache(KEPT)

    @property
    def services(self) -> Services:
        return fake_services(self.world, scorer=self.scorer)

    async def manifest(self) -> RetrievalManifest:
        sources = [
            self.world.source("plate", 0).model_copy(update={"image": ref}) for ref in self.images.values()
        ]
        return await retrieval_manifest(dataset_of(len(sources)), sources, self.world.store)

    async def search(self, class_name: str = "apple", count: int = 2, **changes: object) -> Search:
        config = retrieving_benchmark({"snow": SNOW}, await self.manifest()).model_copy(update=changes)
        return await search_images(
            config, "snow", class_name, count, self.services, self.world.store, indices=self.indices
        )


def dataset_of(number: int) -> Dataset:
    return fake_dataset(number).model_copy(update={"digest": f"{number:064x}"})


@pytest.mark.paper("DI-B-retrieval")
async def test_images_are_ranked_by_similarity_to_the_shift_prompt() -> None:
    scene = Scene()
    found = [each.image for each in (await scene.search(count=3)).found]
    assert found == [scene.images[caption] for caption in (CAPTIONS[0], CAPTIONS[1], CAPTIONS[2])]
    # The name is put in as the prompt of a name is: "an apple".
    assert (await scene.search(count=1)).found[0].similarity == pytest.approx(1.0)
    assert len((await scene.search(count=99)).found) == len(CAPTIONS)


async def test_results_that_are_nearly_equal_are_told() -> None:
    """WordScorer embeds equal captions alike: the same scene stored again, in other bytes."""
    scene = Scene((*CAPTIONS, "a photo of an apple in the snow "))
    searched = await scene.search(count=5)
    first, second = (each.image for each in searched.found[:2])
    assert {first, second} == {scene.images[CAPTIONS[0]], scene.images["a photo of an apple in the snow "]}
    assert searched.alike == {second: first}
    # Of one result there is nothing to be alike.
    assert (await scene.search(count=1)).alike == {}


async def test_a_folder_is_embedded_and_charged_once() -> None:
    scene = Scene()
    # Two tasks of a worker search at the same time, and there is no index yet.
    first, second = await asyncio.gather(scene.search(), scene.search("boat"))
    assert scene.scorer.calls["embed_images"] == 1
    assert first.cost.clip_passes + second.cost.clip_passes == len(CAPTIONS)
    assert (await scene.search()).cost == Cost()


async def test_the_index_is_shared_between_processes_through_the_store() -> None:
    scene = Scene()
    here = await scene.search()
    scene.indices = RunCache(KEPT)
    there = await scene.search()
    assert scene.scorer.calls["embed_images"] == 1
    assert there.found == here.found


async def test_a_damaged_index_is_rebuilt() -> None:
    scene = Scene()
    here = await scene.search()
    for key in scene.world.store.noted:
        scene.world.store.noted[key] = scene.world.store.put(b"rubbish")
    scene.indices = RunCache(KEPT)
    assert (await scene.search()).found == here.found
    assert scene.scorer.calls["embed_images"] == 2


@pytest.mark.fault("B47")
async def test_a_changed_dataset_is_embedded_again() -> None:
    scene = Scene()
    await scene.search()
    newer = "a photo of an apple in the snow at sea"
    scene.images[newer] = scene.world.add(Shown("thing", newer), "newer")
    found = (await scene.search("apple", 99)).found
    assert scene.images[newer] in [each.image for each in found]


async def test_each_clip_model_has_its_own_index() -> None:
    scene = Scene()
    assert (await scene.search()).checkpoint == "fake-clip@0"
    scene.scorer.revision = "1"
    assert (await scene.search()).checkpoint == "fake-clip@1"
    assert scene.scorer.calls["embed_images"] == 2


@pytest.mark.fault("B47")
async def test_an_index_of_an_outdated_dataset_is_refused() -> None:
    scene = Scene()
    await scene.search()
    (index,) = scene.world.store.noted.values()
    older = scene.world.store.blobs[index]
    manifest = await scene.manifest()
    scene.world.store.blobs[index] = older.replace(manifest.digest.encode(), b"f" * 64)
    scene.indices = RunCache(KEPT)
    with pytest.raises(InvalidRequest, match="changed since it was indexed"):
        await scene.search()


async def test_a_clip_model_that_changes_during_embedding_is_an_error() -> None:
    scene = Scene()

    async def exchanged(request: EmbedTextsRequest) -> EmbedResponse:
        answer = await WordScorer(scene.world).embed_texts(request)
        scene.scorer.revision = "1"
        return answer

    scene.scorer.embed_texts = exchanged  # type: ignore[method-assign]
    with pytest.raises(BackendUnavailable, match=r"fake-clip@0.*fake-clip@1"):
        await scene.search()
    assert not scene.world.store.noted


@pytest.mark.fault("B47")
async def test_unreadable_images_are_skipped_and_named() -> None:
    scene = Scene()
    lost = scene.images[CAPTIONS[0]]
    scene.scorer.problems[lost] = ImageUndecodable("no image")
    searched = await scene.search(count=99)
    assert lost not in [each.image for each in searched.found]
    assert searched.unreadable == {lost: "image-undecodable"}
    assert len(searched.found) == len(CAPTIONS) - 1


async def test_a_transient_failure_fails_the_search_and_stores_no_index() -> None:
    scene = Scene()
    lost = scene.images[CAPTIONS[0]]
    scene.scorer.problems[lost] = BackendUnavailable("busy")
    with pytest.raises(BackendUnavailable):
        await scene.search()
    assert not scene.world.store.noted
    scene.scorer.problems.clear()
    assert (await scene.search(count=1)).found[0].image == lost


@pytest.mark.fault("B47")
async def test_a_folder_without_images_is_refused() -> None:
    with pytest.raises(DatasetEmpty, match="'empty' holds no image") as caught:
        await retrieval_manifest(dataset_of(0).model_copy(update={"name": "empty"}), [], FakeWorld().store)
    assert caught.value.pointer == "/retrieval"
    scene = Scene()
    scene.scorer.problems = dict.fromkeys(scene.images.values(), ImageUndecodable("no image"))
    with pytest.raises(DatasetEmpty, match=f"none of {len(CAPTIONS)} can be read"):
        await scene.search()


@pytest.mark.fault("B27")
async def test_a_prompt_too_long_for_clip_fails_the_search() -> None:
    scene = Scene()

    async def refused(request: EmbedTextsRequest) -> EmbedResponse:
        answer = await WordScorer(scene.world).embed_texts(request)
        problem = Problem.of(PromptTooLong("90 tokens"))
        return answer.model_copy(update={"outcomes": [Outcome(problem=problem)]})

    scene.scorer.embed_texts = refused  # type: ignore[method-assign]
    with pytest.raises(PromptTooLong, match="90 tokens"):
        await scene.search()
    assert scene.scorer.calls["embed_images"] == 0


async def test_a_benchmark_without_retrieval_or_that_shift_is_refused() -> None:
    scene = Scene()
    with pytest.raises(InvalidRequest, match="without a dataset"):
        await scene.search(retrieval=None)
    with pytest.raises(InvalidRequest, match="no shift 'snow'"):
        await scene.search(shifts=[])


async def test_a_large_folder_is_embedded_in_batches_within_the_call_limit() -> None:
    scene = Scene(tuple(f"a photo of {number}" for number in range(300)))
    await scene.search()
    assert sorted(scene.scorer.batches) == [44, 64, 64, 64, 64]


async def test_the_number_of_indices_in_memory_is_bounded() -> None:
    scene = Scene()
    scene.indices = RunCache(kept=1)
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
