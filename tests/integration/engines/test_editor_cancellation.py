"""A request cancelled at any step raises Cancelled, writes nothing partial and spares the next call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fakes.tiny_pipeline import RESOLUTION, SUITE

# isort: split
from counterpose_core.blobs import BlobStore
from counterpose_core.contract import editor as contract
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.editing.denoiser import Cancellation
from counterpose_core.errors import Cancelled
from counterpose_core.images.codecs import encode_png, encode_raw
from counterpose_core.types import Inversion
from counterpose_services.editor.engine import EditorEngine
from counterpose_services.editor.pipeline import Pipeline
from evaluation.reference.same_answers import LEVELS, Levels, levels_apart, stored_images

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on grass"
ONE_BY_ONE = SUITE.model_copy(update={"batch": 1})
STEPS = 2
# The engine stores raw images; the sources are PNG.
RAW = encode_raw(np.zeros((1, 1, 3), dtype=np.uint8))[:6]


class Polls:
    """Cancels at the poll after ``allowed`` others, and counts all polls."""

    def __init__(self, allowed: float = float("inf")) -> None:
        self.allowed = allowed
        self.count = 0

    def __call__(self) -> bool:
        self.count += 1
        return self.count > self.allowed


def edits(
    engine: EditorEngine, cancelled: Cancellation, inversion: Inversion = "direct", *, count: int = 1
) -> contract.EditResponse:
    drawn = np.random.default_rng(0).integers(0, 256, (count, RESOLUTION, RESOLUTION, 3), dtype=np.uint8)
    images = [engine.store.put(encode_png(pixels)) for pixels in drawn]
    items = [contract.EditItem(image=image, caption=CAPTION, edited_caption=EDITED) for image in images]
    preset = PromptToPromptPreset(
        inversion=inversion,
        steps=STEPS,
        guidance=2.0,
        self_replace=(0.5,),
        inner_steps=1,
        inner_tolerance=0.0,
    )
    return engine.edit(contract.EditRequest(items=items, preset=preset), cancelled=cancelled)


def two_images(engine: EditorEngine, cancelled: Cancellation) -> contract.GenerateResponse:
    items = [contract.GenerateItem(prompt=CAPTION, seed=seed) for seed in (1, 2)]
    return engine.generate(
        contract.GenerateRequest(items=items, steps=STEPS, guidance=2.0), cancelled=cancelled
    )


def images(engine: EditorEngine, response: contract.EditResponse | contract.GenerateResponse) -> Levels:
    if isinstance(response, contract.GenerateResponse):
        refs = [outcome.unwrap().image for outcome in response.outcomes]
    else:
        refs = [outcome.unwrap().variants[0].image for outcome in response.outcomes]
    return stored_images(engine.store, refs)


def answers(store: BlobStore) -> list[str]:
    files = [path for path in (Path(store.root) / "blobs").rglob("*") if path.is_file()]
    return [path.name for path in files if path.read_bytes().startswith(RAW)]


REQUESTS: dict[
    str, Callable[[EditorEngine, Cancellation], contract.EditResponse | contract.GenerateResponse]
] = {
    "direct": edits,
    "negative-prompt": lambda engine, cancelled: edits(engine, cancelled, "negative-prompt"),
    "null-text": lambda engine, cancelled: edits(engine, cancelled, "null-text"),
    "generate": two_images,
}


@pytest.mark.parametrize("kind", sorted(REQUESTS))
def test_a_request_can_be_cancelled_at_any_step(pipeline: Pipeline, tmp_path: Path, kind: str) -> None:
    request, asked = REQUESTS[kind], Polls()
    undisturbed = EditorEngine(pipeline, ONE_BY_ONE, BlobStore(str(tmp_path / "whole")))
    whole = request(undisturbed, asked)
    assert answers(undisturbed.store)
    # Every step, and the decoding.
    assert asked.count > 2 * STEPS
    for allowed in range(asked.count):
        store = BlobStore(str(tmp_path / str(allowed)))
        engine = EditorEngine(pipeline, ONE_BY_ONE, store)
        with pytest.raises(Cancelled):
            request(engine, Polls(allowed))
        assert not answers(store)
        assert not list((tmp_path / str(allowed) / "tmp").iterdir())
        again = request(engine, Polls())
        assert levels_apart(images(engine, again), images(undisturbed, whole)) <= LEVELS
        assert again.cost.unet_calls <= whole.cost.unet_calls


def test_only_finished_inversions_are_kept(pipeline: Pipeline, tmp_path: Path) -> None:
    whole = edits(EditorEngine(pipeline, ONE_BY_ONE, BlobStore(str(tmp_path / "whole"))), Polls(), count=2)
    for allowed, finished in ((STEPS - 1, 0), (STEPS, 1), (2 * STEPS, 2)):
        engine = EditorEngine(pipeline, ONE_BY_ONE, BlobStore(str(tmp_path / str(allowed))))
        with pytest.raises(Cancelled):
            edits(engine, Polls(allowed), count=2)
        saved = whole.cost.unet_calls - edits(engine, Polls(), count=2).cost.unet_calls
        assert saved == finished * STEPS
