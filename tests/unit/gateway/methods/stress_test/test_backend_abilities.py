"""What a stress test does without an ability of the editor's backend: another way, or a refusal by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from counterpose_core.contract import backend_preset
from counterpose_core.contract.confirmation import Instruction, Wording
from counterpose_core.contract.editor_backends import Capabilities
from counterpose_core.contract.runs import ItemResult
from counterpose_core.errors import InvalidRequest
from counterpose_core.stress_test.screening import Change
from counterpose_core.tasks.classification import ranked
from counterpose_core.types import ItemKind
from counterpose_gateway.methods.stress_test.columns import columns_of, part
from counterpose_gateway.methods.stress_test.observations.fresh_pairs import ChosenChange
from counterpose_gateway.methods.stress_test.observations.observations import Observation, observed
from counterpose_gateway.records.recorded_items import RecordedItem
from fakes.ports import FakeEditor, fake_services
from fakes.runs import outcome, planned, stress_test
from fakes.world import FakeWorld

ANSWER = {"net": ranked(0.9, 1, [("boat", 0.9)])}


def only(monkeypatch: pytest.MonkeyPatch, **abilities: bool) -> None:
    """Let prompt-to-prompt declare these abilities alone."""
    declared = {"prompt-to-prompt": Capabilities.model_validate(abilities)}
    for module in (backend_preset, part):
        monkeypatch.setattr(module, "CAPABILITIES", declared)


@pytest.mark.parametrize(
    ("abilities", "changes", "said", "pointer"),
    [
        ({"transform": True}, {}, "lacks both 'captions' and 'instruction'", "/preset"),
        ({"captions": True}, {"region": "object"}, "lacks 'mask' and changes whole images", "/region"),
        ({"captions": True}, {"strength": [0.5]}, "lacks 'levels'; leave strength out", "/strength"),
    ],
)
async def test_what_the_backend_cannot_do_is_refused_before_anything_runs(
    abilities: dict[str, bool], changes: dict[str, Any], said: str, pointer: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    only(monkeypatch, **abilities)
    world = FakeWorld()
    with pytest.raises(InvalidRequest, match=said) as caught:
        await planned(world.sources(1), fake_services(world), **changes)
    assert caught.value.pointer == pointer


async def test_an_instruction_does_as_well_as_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, instruction=True)
    world = FakeWorld()
    config, _ = await planned(world.sources(1), fake_services(world))
    assert config.editing.capabilities.abilities == {"instruction"}


async def test_without_reconstruction_the_control_is_an_edit_that_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only(monkeypatch, captions=True, seeded=True)
    world = FakeWorld()
    editor = FakeEditor(world)
    items, record = await stress_test(world, world.sources(1), fake_services(world, editor=editor))
    control = outcome(items, record, "reconstruction")
    assert (control.state, editor.calls["reconstruct"]) == ("done", 0)
    result = ItemResult.model_validate(control.result)
    assert (result.psnr_db, result.edited_caption) == (None, None)
    assert result.preset is not None
    assert result.strength == result.preset.sweep[0]
    assert set(result.predictions) == {"steady", "leaning"}


def seen(kind: ItemKind, draw: int, image: str) -> Observation:
    return Observation(
        id=f"{kind}/{draw}", kind=kind, source="s", image="", label="boat", edit_type="object", slot=0,
        stage=2, state="done", reason=None, caption=None, removed="a", added="b", after=ANSWER, before=ANSWER,
        instruction=Instruction(wording=Wording(removed="a", added="b"), draw=draw), unit="s", drawn=image,
    )  # fmt: skip


def test_a_draw_that_gives_an_earlier_image_again_is_no_pair() -> None:
    edits = [seen("confirmation", draw, image) for draw, image in enumerate(("x", "y", "x"), start=1)]
    placebos = {each.place: replace(each, id=f"of {each.id}", drawn="") for each in edits}
    change = ChosenChange(0, Change("boat", "object", "a", "b"), ("net",), edits)
    assert [pair.edit.id for pair in change.pairs("net", placebos)] == ["confirmation/1", "confirmation/2"]
    assert change.dropped(placebos.values()) == {"repeated-draw": 1}
    # With seeds no image is looked at: other noise made another draw.
    seeded = ChosenChange(0, change.change, ("net",), [replace(each, drawn="") for each in edits])
    assert len(seeded.pairs("net", placebos)) == 3
    assert seeded.dropped(placebos.values()) == {}


@pytest.mark.parametrize(("is_seeded", "image"), [(True, ""), (False, "0" * 64)])
def test_images_tell_draws_apart_only_where_no_seed_does(
    is_seeded: bool, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, captions=True, seeded=is_seeded)
    item = RecordedItem(
        id="run.0", state="done", kind="confirmation", item_group="s", source_image="1" * 64, label="boat",
        edit_type="object", slot=0, stage=2, reason=None, code=None, labels=None,
        instruction={"draw": 2, "classifiers": []},
        result={"image": "0" * 64, "caption": "a boat", "preset": {"steps": 3}},
    )  # fmt: skip
    assert observed(columns_of([item]), 0).drawn == image


@pytest.mark.parametrize(("seed", "image"), [(7, ""), (None, "0" * 64)])
def test_a_seed_that_a_server_took_tells_its_draws_apart(seed: int | None, image: str) -> None:
    item = RecordedItem(
        id="run.0", state="done", kind="confirmation", item_group="s", source_image="1" * 64, label="boat",
        edit_type="object", slot=0, stage=2, reason=None, code=None, labels=None,
        instruction={"draw": 2, "classifiers": []},
        result={
            "image": "0" * 64, "caption": "a boat", "preset": {"backend": "images-api"},
            "served": {"seed": seed},
        },
    )  # fmt: skip
    assert observed(columns_of([item]), 0).drawn == image
