"""Requests of several kinds at once: each gives the images that it gives alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from fakes.tiny_pipeline import RESOLUTION, SUITE

# isort: split
from counterpose_core.blobs import BlobStore
from counterpose_core.contract import editor as contract
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import Cancelled
from counterpose_core.images.codecs import encode_png
from counterpose_core.types import BlobRef
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import Pipeline
from evaluation.reference.same_answers import LEVELS, Levels, levels_apart, stored_images

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on grass"
Request = contract.EditRequest | contract.GenerateRequest


def requests(engine: EditorEngine) -> list[Request]:
    """Edits by three inversions, and text-to-image by two schedulers, of different steps and guidance."""
    drawn = np.random.default_rng(0).integers(0, 256, (3, RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
    images = [engine.store.put(encode_png(pixels)) for pixels in drawn]
    return [
        *(
            contract.EditRequest(
                items=[contract.EditItem(image=image, caption=CAPTION, edited_caption=EDITED)],
                preset=PromptToPromptPreset(
                    inversion=inversion,
                    steps=steps,
                    guidance=guidance,
                    self_replace=(0.3, 0.8),
                    inner_steps=2,
                ),
            )
            for image, inversion, steps, guidance in zip(
                images, ("null-text", "direct", "negative-prompt"), (3, 5, 4), (2.0, 1.0, 3.0), strict=True
            )
        ),
        *(
            contract.GenerateRequest(
                items=[contract.GenerateItem(prompt=CAPTION, seed=seed) for seed in (1, 2)],
                steps=4,
                guidance=2.0,
                scheduler=scheduler,
            )
            for scheduler in (None, "EulerDiscreteScheduler")
        ),
    ]


def answer(engine: EditorEngine, request: Request) -> Levels:
    response = engine.edit(request) if isinstance(request, contract.EditRequest) else engine.generate(request)
    refs: list[BlobRef] = []
    for outcome in response.outcomes:
        made = outcome.unwrap()
        if isinstance(made, contract.EditedImage):
            refs += [variant.image for variant in made.variants]
        else:
            refs.append(made.image)
    return stored_images(engine.store, refs)


@pytest.fixture
def engines(pipeline: Pipeline, tmp_path: Path) -> Callable[[str], EditorEngine]:
    return lambda name: EditorEngine(pipeline, SUITE, BlobStore(str(tmp_path / name)))


def test_requests_at_once_give_what_each_gives_alone(engines: Callable[[str], EditorEngine]) -> None:
    alone, together = engines("alone"), engines("together")
    asked: Sequence[Request] = requests(together)
    expected = [answer(alone, request) for request in requests(alone)]
    with ThreadPoolExecutor(len(asked)) as threads:
        found = list(threads.map(lambda request: answer(together, request), asked))
    for one, other in zip(found, expected, strict=True):
        assert levels_apart(one, other) <= LEVELS
    # Otherwise nothing was shared, and this showed nothing.
    assert together.steps.counters.calls < alone.steps.counters.calls


def test_one_of_several_requests_is_cancelled_alone(engines: Callable[[str], EditorEngine]) -> None:
    engine = engines("cancelled")
    leaving, *staying = requests(engine)
    polls = list[int]()

    def cancelled() -> bool:
        polls.append(1)
        return len(polls) > 5

    assert isinstance(leaving, contract.EditRequest)
    with ThreadPoolExecutor(len(staying) + 1) as threads:
        gone = threads.submit(engine.edit, leaving, cancelled=cancelled)
        found = list(threads.map(lambda request: answer(engine, request), staying))
        with pytest.raises(Cancelled):
            gone.result()
    assert len(found) == len(staying)


def test_a_calibrated_engine_gives_the_same(engines: Callable[[str], EditorEngine], tmp_path: Path) -> None:
    plain, calibrated = engines("plain"), engines("calibrated")
    calibrated.calibrate(tmp_path / "kept")
    (request, *_), (same, *_) = requests(plain), requests(calibrated)
    assert levels_apart(answer(plain, request), answer(calibrated, same)) <= LEVELS
    assert len(list((tmp_path / "kept").iterdir())) == 1
