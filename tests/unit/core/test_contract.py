"""The HTTP bodies: what they refuse, what they ignore and what they return unchanged."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from counterpose_core.contract import (
    captioner,
    classifiers,
    datasets,
    editor,
    editor_presets,
    perturber,
    runs,
    scorer,
    services,
)
from counterpose_core.contract import stress_test_figures as figures_of_runs
from counterpose_core.contract import stress_tests as stress
from counterpose_core.contract.backend_preset import BackendPreset
from counterpose_core.contract.base import MAX_BATCH, Outcome, Problem, RequestBody, ResponseBody
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.errors import BadBackendOutput, ImageUndecodable
from counterpose_core.types import BlobRef, ClassifierSpec, Cost, Estimate, Name, Seed

MODULES = (captioner, classifiers, datasets, editor, perturber, runs, scorer, services, stress)
IMAGE = "0" * 64
CREATE: dict[str, Any] = {"dataset": "demo", "classifiers": ["leaning-resnet"], "seed": 0}
COUNTS: dict[str, int] = {"total": 6, "pending": 1, "done": 2, "filtered": 1, "failed": 1, "cancelled": 1}


def bodies(base: type[BaseModel]) -> list[type[BaseModel]]:
    """Every body of the contract that derives from ``base``."""
    found = {
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    return sorted(found, key=lambda body: body.__name__)


@pytest.mark.parametrize("body", bodies(RequestBody), ids=lambda body: body.__name__)
def test_every_request_refuses_unknown_fields(body: type[BaseModel]) -> None:
    assert body.model_config.get("extra") == "forbid"


@pytest.mark.parametrize("body", bodies(ResponseBody), ids=lambda body: body.__name__)
def test_every_response_ignores_unknown_fields(body: type[BaseModel]) -> None:
    assert body.model_config.get("extra") == "ignore"


@pytest.mark.parametrize(
    "body", [*bodies(RequestBody), *bodies(ResponseBody)], ids=lambda body: body.__name__
)
def test_every_body_is_frozen_finite_and_documented(body: type[BaseModel]) -> None:
    assert body.model_config.get("frozen") is True
    assert body.model_config.get("allow_inf_nan") is False
    # A generic body with its type filled in says what it is where it is written.
    assert body.__doc__ or (body.__pydantic_generic_metadata__["origin"] or body).__doc__


def test_a_misspelt_field_is_named() -> None:
    with pytest.raises(ValidationError) as caught:
        stress.StressTestCreate.model_validate({**CREATE, "max_edit_per_image": 3})
    assert caught.value.errors()[0]["loc"] == ("max_edit_per_image",)


def test_a_field_of_a_newer_server_is_ignored() -> None:
    counts = runs.RequestCounts.model_validate({**COUNTS, "postponed": 3})
    assert counts.model_dump() == COUNTS


@pytest.mark.parametrize("state", sorted(COUNTS))
def test_counts_that_do_not_add_up_are_refused(state: str) -> None:
    with pytest.raises(ValidationError, match="add up"):
        runs.RequestCounts.model_validate({**COUNTS, state: COUNTS[state] + 1})


def test_a_stress_test_round_trips() -> None:
    sent = stress.StressTestCreate.model_validate({**CREATE, "edit_types": ["domain"], "limit": 3})
    assert stress.StressTestCreate.model_validate_json(sent.model_dump_json()) == sent


@pytest.mark.paper("LANCE-A1-4-types")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("dataset", "../demo"),
        ("dataset", ""),
        ("classifiers", []),
        ("classifiers", ["leaning-resnet", "leaning-resnet"]),
        ("edit_types", ["weather"]),
        ("edit_types", ["domain", "domain"]),
        ("max_edits_per_image", 0),
        ("max_edits_per_image", 51),
        ("lance_r_edits_per_image", -1),
        ("lance_r_edits_per_image", 17),
        ("preset", "a/b"),
        ("selection", "best"),
        ("limit", 0),
        ("refused_words", ["two words"]),
        ("refused_words", [""]),
        ("refused_words", ["rusty", "-"]),
        ("exclude", [""]),
        ("exclude", "bus/1.png"),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", 1.5),
        ("seed", "7"),
    ],
)
def test_a_stress_test_out_of_range_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        stress.StressTestCreate.model_validate({**CREATE, field: value})
    assert caught.value.errors()[0]["loc"][0] == field


def test_a_stress_test_without_a_seed_is_refused() -> None:
    with pytest.raises(ValidationError, match="seed"):
        stress.StressTestCreate.model_validate({"dataset": "demo", "classifiers": ["leaning-resnet"]})


@pytest.mark.parametrize(
    "spec",
    [
        "leaning-resnet",
        "timm:resnet50",
        "timm:vit_base_patch16_224.augreg_in1k",
        "local:my-model",
        "clip:zero-shot",
        "oip:http://127.0.0.1:8000/v2/models/mine",
    ],
)
def test_valid_classifier_names_are_accepted(spec: str) -> None:
    assert TypeAdapter(ClassifierSpec).validate_python(spec) == spec


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "/etc/passwd",
        "../weights",
        "local:../weights",
        "local:/weights",
        "timm:a/b",
        "timm:..",
        "local:.hidden",
        "timm:hf-hub:someone/model",
        "py:module:function",
        "oip:file:///etc/passwd",
        "oip:http://host/?q=1",
        "a\\b",
        "name\n",
        "na me",
        "x" * 256,
    ],
)
def test_a_path_is_not_a_classifier_name(spec: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(ClassifierSpec).validate_python(spec)


def test_a_python_function_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValidationError, match="cannot run on a server: pass it to the SDK"):
        TypeAdapter(ClassifierSpec).validate_python("py:mymodel:predict")


@pytest.mark.parametrize("name", ["", "..", "a/b", "/a", ".a", "-a", "a b", "a\n", "a\x00", "x" * 97])
def test_a_path_is_not_a_dataset_name(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)


@pytest.mark.parametrize("ref", ["", "0" * 63, "0" * 65, "A" * 64, "../" + "0" * 61, "0" * 64 + "\n"])
def test_a_blob_reference_must_be_a_digest(ref: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(BlobRef).validate_python(ref)


@pytest.mark.parametrize("seed", [True, -1, 2**63, 0.0, "0", None])
def test_a_seed_must_be_an_integer(seed: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Seed).validate_python(seed)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_are_refused(value: float) -> None:
    with pytest.raises(ValidationError):
        classifiers.Prediction(probabilities=[value], top=[0])
    with pytest.raises(ValidationError):
        scorer.Embedding(vector=[0.0, value])
    with pytest.raises(ValidationError):
        Estimate(estimate=value, low=0.0, high=0.0, n=1)
    with pytest.raises(ValidationError):
        PromptToPromptPreset(guidance=value)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan])
def test_a_fraction_of_the_steps_is_between_0_and_1(fraction: float) -> None:
    with pytest.raises(ValidationError):
        PromptToPromptPreset(self_replace=(fraction,))
    with pytest.raises(ValidationError):
        PromptToPromptPreset(cross_replace=fraction)


def test_a_preset_names_its_backend_only_where_it_is_not_the_first() -> None:
    plain = PromptToPromptPreset()
    named = PromptToPromptPreset.model_validate({"backend": "prompt-to-prompt"})
    assert plain == named
    assert plain.backend == "prompt-to-prompt"
    # What is hashed and stored is as before presets had a backend.
    assert "backend" not in named.model_dump(mode="json")
    assert "backend" not in named.model_dump_json()
    assert PromptToPromptPreset.model_validate_json(named.model_dump_json()) == named


class ByHand(BackendPreset):
    """The settings of a backend that there is not."""

    backend: str = "by-hand"  # type: ignore[assignment]  # not among the product's
    hands: int = 2


def test_a_preset_is_read_as_its_backend_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Mapping[Any, type[BackendPreset]] = editor_presets.PRESETS
    monkeypatch.setattr(editor_presets, "PRESETS", {**own, "by-hand": ByHand})

    class Both(BaseModel):
        preset: editor_presets.EditorPreset

    for preset in (ByHand(hands=3), PromptToPromptPreset(steps=7)):
        held = Both(preset=preset)
        assert held.preset is preset
        again = Both.model_validate_json(held.model_dump_json())
        assert (type(again.preset), again.preset) == (type(preset), preset)
    assert Both(preset=ByHand(hands=3)).model_dump(mode="json") == {
        "preset": {"backend": "by-hand", "hands": 3}
    }
    untagged = Both.model_validate({"preset": {"steps": 7}}).preset
    assert untagged == PromptToPromptPreset(steps=7)
    with pytest.raises(ValidationError):
        Both.model_validate({"preset": {"backend": "by-machine"}})
    with pytest.raises(ValidationError):
        Both.model_validate({"preset": {"backend": "by-hand", "steps": 7}})


def test_a_sweep_has_at_least_one_value() -> None:
    with pytest.raises(ValidationError):
        PromptToPromptPreset(self_replace=())


def test_virtual_inversion_requires_the_consistent_solver() -> None:
    PromptToPromptPreset(inversion="virtual", solver="consistent")
    with pytest.raises(ValidationError, match="requires the solver 'consistent', not 'ddim'"):
        PromptToPromptPreset(inversion="virtual")


def test_an_estimate_is_either_complete_or_unknown() -> None:
    assert str(Estimate(estimate=None, low=None, high=None, n=0)) == "- (n=0)"
    assert str(Estimate(estimate=0.5, low=0.25, high=0.75, n=8)) == "0.500 [0.250, 0.750] (n=8)"
    with pytest.raises(ValidationError, match="or none of them"):
        Estimate(estimate=0.5, low=None, high=0.7, n=3)


def test_an_outcome_is_a_value_or_a_problem() -> None:
    problem = Problem.of(ImageUndecodable("the image 'a.png' is cut short"))
    with pytest.raises(ValidationError, match="exactly one"):
        Outcome[Cost]()
    with pytest.raises(ValidationError, match="exactly one"):
        Outcome[Cost](value=Cost(), problem=problem)
    assert Outcome[Cost](value=Cost()).unwrap() == Cost()
    with pytest.raises(ImageUndecodable, match=re.escape("'a.png'")):
        Outcome[Cost](problem=problem).unwrap()


def test_the_failure_of_an_item_round_trips() -> None:
    response = captioner.CaptionResponse.model_validate_json(
        captioner.CaptionResponse.model_validate(
            {
                "outcomes": [
                    {"problem": Problem.of(BadBackendOutput("NaN"))},
                    {"value": {"text": "a bee", "log_likelihood": -1.5, "tokens": 2}},
                ],
                "model": {"id": "captioner", "revision": "1"},
            }
        ).model_dump_json()
    )
    assert response.outcomes[1].unwrap().text == "a bee"
    with pytest.raises(BadBackendOutput):
        response.outcomes[0].unwrap()


def test_a_batch_is_not_empty_and_within_the_limit() -> None:
    item = captioner.CaptionItem(image=IMAGE)
    assert len(captioner.CaptionRequest(items=[item] * MAX_BATCH).items) == MAX_BATCH
    for items in ([], [item] * (MAX_BATCH + 1)):
        with pytest.raises(ValidationError):
            captioner.CaptionRequest(items=items)


def test_costs_add_up_field_by_field() -> None:
    total = Cost(unet_calls=1, unet_evaluations=4, seconds=0.5) + Cost(
        unet_calls=2, clip_passes=3, seconds=1.0
    )
    assert total == Cost(unet_calls=3, unet_evaluations=4, clip_passes=3, seconds=1.5)


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (Cost(seconds=9.0), "no UNet evaluation"),
        (
            Cost(unet_calls=2, unet_evaluations=8, flops=4_000),
            "8 UNet evaluations (F) in 2 calls, 4.00 kFLOP",
        ),
        (
            Cost(unet_calls=2, unet_evaluations=8, unet_backward_evaluations=3, flops=4_000),
            "8 UNet evaluations (F) and 3 backward in 2 calls, 4.00 kFLOP",
        ),
    ],
)
def test_a_cost_in_words_names_what_was_evaluated(cost: Cost, told: str) -> None:
    assert str(cost) == told


def test_costs_are_exact_beyond_float_precision() -> None:
    evaluation = Cost(flops=2**62 + 1, attention_map_bytes=2**53 + 1, host_syncs=1)
    read_back = Cost.model_validate_json((evaluation + evaluation).model_dump_json())
    assert read_back == Cost(flops=2**63 + 2, attention_map_bytes=2**54 + 2, host_syncs=2)


def test_a_cost_without_counters_reads_as_zero() -> None:
    old = Cost.model_validate({"unet_calls": 2, "unet_evaluations": 7, "seconds": 0.5})
    assert (old.flops, old.attention_map_bytes, old.host_syncs) == (0, 0, 0)


def test_a_summary_serialises_yields_as_yield() -> None:
    schema = stress.StressTestSummary.model_json_schema(by_alias=True)
    assert "yield" in schema["properties"]
    assert "yields" not in schema["properties"]


def test_every_figure_of_the_contract_is_an_estimate() -> None:
    figures = {"hit_rates", "drop", "delta_p", "abs_delta_p"}
    for body in (figures_of_runs.HitRates, stress.ModelSummary, stress.EditTypeSummary, stress.Insight):
        for name in figures & set(body.model_fields):
            assert body.model_fields[name].annotation in (Estimate, tuple[Estimate, Estimate])
