"""Presets with previews: small images determine the value, and the gate judges the full image."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.editor import EditRequest, EditResponse
from counterpose_core.contract.scorer import EditScores, ScoreItem
from counterpose_core.types import Decoder, Selection
from fakes.ports import FakeEditor, FakeScorer, fake_services
from fakes.recorder import FakeRecorder
from fakes.runs import stress_test
from fakes.world import FakeWorld

SWEEP = (0.4, 0.6, 0.8)


class _Decoding(FakeEditor):
    """Notes what was asked of which decoder; a preview is another image than the full one."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.asked: list[tuple[Decoder, tuple[float, ...], int]] = []
        self.previews: set[str] = set()

    async def edit(self, request: EditRequest) -> EditResponse:
        self.asked.append((request.decoder, request.values, len(request.items)))
        if request.decoder == "full":
            return await super().edit(request)
        response = await super().edit(request)
        for outcome in response.outcomes:
            self.previews |= {variant.image for variant in outcome.unwrap().variants}
        return response.model_copy(update={"model": ModelIdentity(id="small", revision="1")})

    def _draw(self, source: str, caption: str, strength: float | None) -> str:
        ref = super()._draw(source, caption, strength)
        if not self.asked or self.asked[-1][0] == "full" or strength is None:
            return ref
        return self.world.add(self.world.shown[ref], "preview", strength)


Passes = Callable[[bool, float], bool]
"""Whether an image passes, by whether it is a preview and by its value."""


class _Judging(FakeScorer):
    """Lets images pass as a rule says."""

    def __init__(self, world: FakeWorld, editor: _Decoding, passes: Passes) -> None:
        super().__init__(world)
        self.editor, self.passes = editor, passes

    def measure(self, item: ScoreItem) -> EditScores:
        fraction = self.world.shown[item.edited].strength
        assert fraction is not None
        good = self.passes(item.edited in self.editor.previews, fraction)
        return super().measure(item).model_copy(update={"image_image": 0.9 if good else 0.1})


async def run(passes: Passes, selection: Selection = "paper") -> tuple[FakeRecorder, _Decoding]:
    world = FakeWorld()
    editor = _Decoding(world)
    services = fake_services(world, editor=editor, scorer=_Judging(world, editor, passes))
    sources = [world.source("sled", 0)]
    _, record = await stress_test(world, sources, services, preset="preview", selection=selection)
    kept = {found.result.image for found in record.outcomes.values() if found.result and found.result.image}
    assert not kept & editor.previews
    return record, editor


def states(record: FakeRecorder) -> list[str]:
    return [found.state for found in record.outcomes.values() if found.result and found.result.strength]


async def test_the_value_chosen_on_previews_is_decoded_in_full() -> None:
    record, editor = await run(lambda preview, value: not preview or value == 0.6)
    assert editor.asked == [("preview", SWEEP, 6), ("full", (0.6,), 6)]
    assert states(record) == ["done"] * 6
    edited = [found.result for found in record.outcomes.values() if found.result and found.result.strength]
    assert [result.strength for result in edited] == [0.6] * 6
    assert [result.strengths_tried for result in edited] == [list(SWEEP)] * 6
    assert {result.scores.image_image for result in edited if result.scores} == {0.9}
    models = edited[-1].models
    assert (models["preview-decoder"], models["editor"]) == ("small@1", "fake-editor@0")


@pytest.mark.parametrize(
    ("passes", "state"),
    [(lambda preview, _: preview, "filtered"), (lambda preview, _: not preview, "done")],
)
async def test_the_gate_judges_the_full_image(passes: Passes, state: str) -> None:
    record, _ = await run(passes)
    assert states(record) == [state] * 6


async def test_under_the_released_rule_previews_end_the_sweep() -> None:
    _, editor = await run(lambda preview, value: not preview or value == 0.6, "released")
    assert editor.asked == [("preview", (0.8,), 6), ("preview", (0.6,), 6), ("full", (0.6,), 6)]


async def test_each_chosen_value_is_decoded_in_its_own_call() -> None:
    world = FakeWorld()
    both = _Decoding(world)

    class Apart(FakeScorer):
        def measure(self, item: ScoreItem) -> EditScores:
            fraction = self.world.shown[item.edited].strength
            wanted = 0.8 if "dog" in item.edited_caption else 0.4
            good = 0.9 if fraction == wanted else 0.1
            return super().measure(item).model_copy(update={"image_image": good})

    services = fake_services(world, editor=both, scorer=Apart(world))
    await stress_test(world, [world.source("sled", 0)], services, preset="preview")
    assert sorted(both.asked[1:]) == [("full", (0.4,), 1), ("full", (0.8,), 5)]


async def test_preview_costs_are_recorded_once() -> None:
    record, editor = await run(lambda _, __: True)
    results = [found.result for found in record.outcomes.values() if found.result]
    evaluations = [20 * (len(values) * edits + 1) for _, values, edits in editor.asked]
    assert sum(result.cost.unet_evaluations for result in results) == 20 + sum(evaluations)
