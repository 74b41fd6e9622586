"""Images of different sizes in one request, and requests with different presets in sequence."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from fakes.tiny_pipeline import RESOLUTION, SUITE

# isort: split
from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import EditItem, EditRequest
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.images.codecs import encode_png
from counterpose_services.editor.engine import EditorEngine
from evaluation.reference.same_answers import LEVELS, Levels, levels_apart, stored_images

pytestmark = pytest.mark.floats

CAPTION, EDITED = "a photo of a red bus on grass", "a photo of a blue bus on grass"
QUICK = PromptToPromptPreset(steps=3, guidance=2.0, self_replace=(0.4, 0.7), inner_steps=1)
SIZES = [(RESOLUTION, RESOLUTION), (40, 90), (90, 40), (300, 301), (5, 7), (1, 8)]


@pytest.fixture
def engine(root: Path, tmp_path: Path) -> EditorEngine:
    return EditorEngine.load(SUITE, root, BlobStore(str(tmp_path)))


def item(engine: EditorEngine, height: int, width: int) -> EditItem:
    pixels = np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return EditItem(image=engine.store.put(encode_png(pixels)), caption=CAPTION, edited_caption=EDITED)


def edited(engine: EditorEngine, items: list[EditItem], preset: PromptToPromptPreset) -> Levels:
    """Return the first image of each edit."""
    outcomes = engine.edit(EditRequest(items=items, preset=preset)).outcomes
    return stored_images(engine.store, [outcome.unwrap().variants[0].image for outcome in outcomes])


def test_images_of_different_sizes_share_a_request(engine: EditorEngine) -> None:
    items = [item(engine, *size) for size in SIZES]
    together = edited(engine, items, QUICK)
    for one, image in zip(items, together, strict=True):
        (alone,) = edited(engine, [one], QUICK)
        assert image.shape == (RESOLUTION, RESOLUTION, 3)
        assert levels_apart(image, alone) <= LEVELS


def test_edits_do_not_depend_on_earlier_presets(engine: EditorEngine, tmp_path: Path) -> None:
    changes: list[dict[str, object]] = [
        {"steps": 2},
        {"inversion": "null-text"},
        {"self_replace": (0.9,)},
        {"guidance": 5.0},
        {},
    ]
    presets = [QUICK.model_copy(update=change) for change in changes]
    one = item(engine, 20, 30)
    mixed = [edited(engine, [one], preset) for preset in presets]
    for number, preset in enumerate(presets):
        fresh = EditorEngine(engine.pipeline, SUITE, BlobStore(str(tmp_path / str(number))))
        assert levels_apart(mixed[number], edited(fresh, [item(fresh, 20, 30)], preset)) <= LEVELS
    assert all(levels_apart(one, other) > LEVELS for one, other in combinations(mixed, 2))


def test_all_items_of_a_request_share_one_preset() -> None:
    one = {"image": "0" * 64, "caption": CAPTION, "edited_caption": EDITED}
    mixed = [one, one | {"preset": QUICK.model_dump()}]
    with pytest.raises(ValidationError) as refused:
        EditRequest.model_validate({"items": mixed, "preset": QUICK.model_dump()})
    assert [error["loc"] for error in refused.value.errors()] == [("items", 1, "preset")]
