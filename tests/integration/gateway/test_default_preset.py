"""A stress test without a preset runs the suite's default, and its stored config names it."""

from __future__ import annotations

from pathlib import Path

from counterpose_core.contract.editor import EditRequest, EditResponse
from counterpose_core.contract.editor_presets import EditorPreset
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.runs import Run
from counterpose_core.suite import Suite
from fakes.gateway import FakeGateway, fake_gateway
from fakes.ports import FakeEditor, fake_services
from fakes.world import FakeWorld, fake_suite

BODY = {"dataset": "demo", "classifiers": ["steady"], "edit_types": ["background"], "limit": 1, "seed": 3}


class RecordingEditor(FakeEditor):
    """Records the presets of its requests."""

    def __init__(self, world: FakeWorld) -> None:
        super().__init__(world)
        self.presets: list[EditorPreset] = []

    async def edit(self, request: EditRequest) -> EditResponse:
        """Record the preset, and edit."""
        self.presets.append(request.preset)
        return await super().edit(request)


def suite_with(default_preset: str) -> Suite:
    suite = fake_suite()
    editor = suite.editor.model_copy(update={"default_preset": default_preset})
    return suite.model_copy(update={"editor_part": editor})


async def created(gateway: FakeGateway, **changes: object) -> Run:
    await gateway.upload("demo", 1)
    answer = await gateway.http.post("/v1/stress-tests", json=BODY | changes)
    return Run.model_validate_json(answer.content)


async def test_an_omitted_preset_runs_the_suite_s_default(tmp_path: Path) -> None:
    suite = suite_with("lance")
    async with fake_gateway(tmp_path, suite=suite) as gateway:
        run = await created(gateway)
        editor = RecordingEditor(gateway.world)
        await gateway.worker(fake_services(gateway.world, editor=editor)).work_off()
        assert gateway.ledger.runs.get(run.id).state == "completed"
    lance = suite.editor.presets["lance"]
    assert editor.presets
    assert all(preset == lance for preset in editor.presets)


async def test_the_stored_config_names_the_default_preset_used(tmp_path: Path) -> None:
    suite = suite_with("lance")
    async with fake_gateway(tmp_path, suite=suite) as gateway:
        config = (await created(gateway)).resolved_config
    assert config["request"]["preset"] == "lance"
    assert PromptToPromptPreset.model_validate(config["preset"]) == suite.editor.presets["lance"]


async def test_a_named_preset_overrides_the_default(tmp_path: Path) -> None:
    async with fake_gateway(tmp_path, suite=suite_with("lance")) as gateway:
        config = (await created(gateway, preset="quick")).resolved_config
    assert config["request"]["preset"] == "quick"
    assert PromptToPromptPreset.model_validate(config["preset"]) == fake_suite().editor.presets["quick"]
