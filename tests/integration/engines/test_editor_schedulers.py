"""Generation with diffusers' schedulers: it matches diffusers' pipeline and depends only on the seed."""

from __future__ import annotations

import inspect
import json
from functools import cache
from pathlib import Path
from typing import get_args

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import diffusers
import numpy as np
import pytest
import torch
from diffusers import StableDiffusionPipeline
from numpy.typing import NDArray
from pydantic import ValidationError

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.editor import GenerateItem, GenerateRequest
from counterpose_core.errors import InvalidRequest
from counterpose_core.images.codecs import decode_image
from counterpose_core.types import Scheduler
from counterpose_services.editor.engine import EditorEngine
from fakes.tiny_pipeline import RESOLUTION, SUITE, write_tiny_pipeline

pytestmark = pytest.mark.floats

SCHEDULERS: tuple[Scheduler, ...] = get_args(Scheduler)
PROMPTS = ("a photo of a red bus", "a blue tram in the snow", "a tram on grass")
STEPS, GUIDANCE = 5, 3.0
EVERY = pytest.mark.parametrize("name", SCHEDULERS)
TWICE_A_STEP = {"HeunDiscreteScheduler", "KDPM2DiscreteScheduler", "KDPM2AncestralDiscreteScheduler"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tiny pipeline as a model of noise and as one of velocity."""
    roots = {kind: tmp_path_factory.mktemp(kind) for kind in ("epsilon", "v_prediction")}
    for kind, root in roots.items():
        write_tiny_pipeline(root / "tiny")
        file = scheduler_file(root)
        own = json.loads(file.read_text()) | {"prediction_type": kind, "skip_prk_steps": True}
        file.write_text(json.dumps(own))
    return roots


@pytest.fixture(scope="module")
def engine(folders: dict[str, Path]) -> EditorEngine:
    return engine_of(folders["epsilon"])


@cache
def engine_of(folder: Path) -> EditorEngine:
    return EditorEngine.load(SUITE, folder, BlobStore(str(folder / "store")))


def scheduler_file(folder: Path) -> Path:
    return folder / "tiny" / "scheduler" / "scheduler_config.json"


def asked(
    name: Scheduler | None, *rows: int, steps: int = STEPS, guidance: float = GUIDANCE
) -> GenerateRequest:
    items = [GenerateItem(prompt=PROMPTS[row], seed=70 + row) for row in rows]
    return GenerateRequest(items=items, steps=steps, guidance=guidance, scheduler=name)


def generated(engine: EditorEngine, request: GenerateRequest) -> NDArray[np.int16]:
    refs = [outcome.unwrap().image for outcome in engine.generate(request).outcomes]
    return np.stack([decode_image(engine.store.get(ref)).astype(np.int16) for ref in refs])


@cache
def pipeline_of(folder: Path) -> StableDiffusionPipeline:
    loaded = StableDiffusionPipeline.from_pretrained(folder / "tiny", safety_checker=None)
    loaded.set_progress_bar_config(disable=True)
    return loaded


def by_diffusers(folder: Path, name: Scheduler, row: int) -> NDArray[np.int16]:
    pipeline = pipeline_of(folder)
    own = json.loads(scheduler_file(folder).read_text())
    pipeline.scheduler = getattr(diffusers, name).from_config(own)
    # The pipeline's own default would take from TCD's published sampler what it draws.
    eta = inspect.signature(pipeline.scheduler.step).parameters.get("eta")
    made = pipeline(
        prompt=PROMPTS[row], num_inference_steps=STEPS, guidance_scale=GUIDANCE, output_type="np",
        generator=torch.Generator().manual_seed(70 + row), eta=0.0 if eta is None else eta.default,
        height=RESOLUTION, width=RESOLUTION,
    )  # fmt: skip
    image: NDArray[np.float32] = made.images[0]
    return np.round(image * 255).astype(np.int16)


@pytest.mark.paper("DI-C-sampler")
@pytest.mark.parametrize("kind", ["epsilon", "v_prediction"])
@EVERY
def test_images_match_the_diffusers_pipeline(folders: dict[str, Path], name: Scheduler, kind: str) -> None:
    ours = generated(engine_of(folders[kind]), asked(name, 0, 1))
    for row in (0, 1):
        assert np.abs(ours[row] - by_diffusers(folders[kind], name, row)).max() <= 1


@EVERY
def test_an_image_depends_on_its_seed_and_not_on_its_batch(engine: EditorEngine, name: Scheduler) -> None:
    together = generated(engine, asked(name, 0, 1, 2))
    turned = generated(engine, asked(name, 2, 0))
    alone = generated(engine, asked(name, 1))
    assert np.abs(alone[0] - together[1]).max() <= 1
    assert np.abs(turned - together[[2, 0]]).max() <= 1
    assert np.abs(together[0] - together[2]).max() > 1


@EVERY
def test_counted_evaluations_are_the_evaluations_made(engine: EditorEngine, name: Scheduler) -> None:
    calls: list[int] = []
    hook = engine.pipeline.denoiser._unet.register_forward_pre_hook(
        lambda _, args: calls.append(len(args[0]))
    )
    response = engine.generate(asked(name, 0, 1))
    hook.remove()
    assert response.cost.unet_evaluations == sum(calls)
    an_image = {outcome.unwrap().cost.unet_evaluations for outcome in response.outcomes}
    levels = 2 * STEPS - 1 if name in TWICE_A_STEP else STEPS + (name == "PNDMScheduler")
    assert an_image == {2 * levels}


def test_the_empty_prompt_is_not_evaluated_without_guidance(engine: EditorEngine) -> None:
    request = asked("EulerDiscreteScheduler", 0).model_copy(update={"guidance": 1.0})
    assert engine.generate(request).cost.unet_evaluations == STEPS


def test_naming_ddim_matches_the_default_scheduler(engine: EditorEngine) -> None:
    named, own = (generated(engine, asked(name, 0, 1)) for name in ("DDIMScheduler", None))
    assert np.abs(named - own).max() <= 1


@pytest.mark.parametrize("name", ["EulerAncestralDiscreteScheduler", "DDPMScheduler", "LCMScheduler"])
def test_no_step_reuses_the_starting_noise(
    engine: EditorEngine, name: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[torch.Tensor] = []
    plain = torch.randn

    def noting(*args: object, **kwargs: object) -> torch.Tensor:
        drawn.append(plain(*args, **kwargs))  # type: ignore[call-overload]
        return drawn[-1]

    monkeypatch.setattr(torch, "randn", noting)
    engine.generate(asked(name, 0))
    flat = [each.flatten() for each in drawn]
    assert len(flat) > 2
    assert len({tuple(each.tolist()) for each in flat}) == len(flat)


@pytest.mark.fault("B36")
def test_an_error_for_an_unusable_scheduler_lists_the_known_ones() -> None:
    for name in ("Euler", "FlowMatchEulerDiscreteScheduler", "DDIMInverseScheduler", "os", ""):
        with pytest.raises(ValidationError, match=r"scheduler\n.*DDIMScheduler.*UniPCMultistepScheduler"):
            GenerateRequest.model_validate(asked(None, 0).model_dump() | {"scheduler": name})


@pytest.mark.fault("B36")
def test_more_steps_than_a_model_was_distilled_on_are_refused(engine: EditorEngine) -> None:
    with pytest.raises(InvalidRequest, match=r"LCMScheduler.*51 steps") as caught:
        engine.generate(asked("LCMScheduler", 0, steps=51))
    assert caught.value.pointer == "/steps"


@EVERY
def test_schedulers_generate_in_one_or_two_steps(engine: EditorEngine, name: Scheduler) -> None:
    for steps in (1, 2):
        assert engine.generate(asked(name, 0, steps=steps)).outcomes[0].problem is None


def test_a_bad_prompt_does_not_affect_other_images(engine: EditorEngine) -> None:
    for name in SCHEDULERS:
        poisoned = GenerateItem(prompt="a poison bus", seed=1)
        request = asked(name, 0, steps=2)
        both = request.model_copy(update={"items": [poisoned, *request.items]})
        first, second = engine.generate(both).outcomes
        assert first.problem is not None
        assert first.problem.code == "numerical-failure"
        made = decode_image(engine.store.get(second.unwrap().image)).astype(np.int16)
        assert np.abs(made - generated(engine, request)[0]).max() <= 1
