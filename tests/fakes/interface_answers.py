"""The gateway's answers about a dataset interface: its run, its figures, its images."""

from __future__ import annotations

import hashlib

import httpx

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.dataset_interfaces import (
    DatasetInterfaceConfig,
    DatasetInterfaceCreate,
    DatasetInterfaceSummary,
    Image,
    Images,
    TokenResult,
)
from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.runs import Run
from counterpose_core.contract.tokens import TextualInversionPreset
from counterpose_core.types import Cost, Estimate, RunState
from fakes.sdk import a_run, ok

REF = "a" * 64
TOKEN = "b" * 64


def an_interface_run(state: RunState = "queued", done: int = 0) -> Run:
    """A dataset interface of three classes."""
    return a_run(state, done).model_copy(update={"kind": "dataset-interface"})


def interface_answer(state: RunState = "queued", done: int = 0) -> httpx.Response:
    """The answer that describes such a run."""
    return ok(an_interface_run(state, done).model_dump_json())


def similarity(estimate: float) -> Estimate:
    """A cosine over twelve images."""
    return Estimate(estimate=estimate, low=estimate - 0.02, high=estimate + 0.02, n=12)


def a_config() -> DatasetInterfaceConfig:
    """What an interface of plates, boats and trams was resolved to."""
    return DatasetInterfaceConfig(
        request=DatasetInterfaceCreate(dataset="demo", seed=0),
        suite="fake",
        preset=TextualInversionPreset(steps=8),
        prompts="templates",
        models={"editor": "sd@" + "c" * 12},
        versions={"counterpose": "0.1.0"},
        dataset_digest="d" * 64,
        classes=["plate", "boat", "tram"],
        images={},
        link_steps=4,
        generation=GenerationPreset(steps=4, guidance=2.0),
    )


def a_token(**told: object) -> TokenResult:
    """A class that was learned in eight steps, looked at in images."""
    fields = {
        "token": TOKEN, "initialiser": "plate", "steps": 8, "losses": [0.5, 0.4, 0.35, 0.3],
        "losses_over": 2, "n_images": 12, "object_similarity": similarity(0.3),
        "name_similarity": similarity(0.25), "real_similarity": similarity(0.32),
    }  # fmt: skip
    return TokenResult.model_validate(fields | told)


def an_interface_summary(**told: object) -> DatasetInterfaceSummary:
    """An interface of which one class is learned, one failed and one was cancelled."""
    fields = {
        "run_id": "run-1", "dataset": "demo", "tokens": {"plate": a_token()},
        "missing": {"boat": "dataset-empty: no image can be read", "tram": "learning was cancelled"},
        "counts": a_run("cancelled").request_counts, "cost": Cost(unet_evaluations=96), "config": a_config(),
    }  # fmt: skip
    return DatasetInterfaceSummary.model_validate(fields | told)


def some_images(n: int, class_name: str = "plate") -> httpx.Response:
    """The answer to a generation of ``n`` plates in the snow."""
    images = [
        Image(
            image=hashlib.sha256(str(number).encode()).hexdigest(), class_name=class_name,
            shift="in the snow", prompt="a photo of a <class> in the snow", seed=100 + number, token=TOKEN,
        )
        for number in range(n)
    ]  # fmt: skip
    told = Images(
        images=images, model=ModelIdentity(id="sd", revision="c" * 12), cost=Cost(unet_evaluations=12)
    )
    return ok(told.model_dump_json())
