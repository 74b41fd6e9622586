"""The gateway's answers about a shift benchmark: its run, its figures, its thresholds."""

from __future__ import annotations

import datetime as dt
import hashlib

import httpx

from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.runs import Run
from counterpose_core.contract.shift_benchmark_summary import (
    ClassCondition,
    ConditionSummary,
    EffectSummary,
    GapSummary,
    ImageCounts,
    ImageSourceSummary,
    ModelDrop,
    ObjectThresholdSummary,
    PromptAccuracy,
    RealSummary,
    ShiftBenchmarkSummary,
    ShiftSummary,
    SlopeSummary,
)
from counterpose_core.contract.shift_benchmarks import (
    BenchmarkShift,
    ImageSource,
    ShiftBenchmarkConfig,
    ShiftBenchmarkCreate,
)
from counterpose_core.contract.shift_thresholds import (
    InspectedImage,
    Inspection,
    Inspections,
    ShiftThresholdDecision,
    ShiftThresholds,
    ThresholdInForce,
)
from counterpose_core.types import Cost, Estimate, RunState
from fakes.interface_answers import TOKEN
from fakes.sdk import a_run, figure, ok

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
CLASSES = ("plate", "boat")
MODELS = ("steady", "middling", "leaning")
SHIFTS = {"in the snow": "weather", "a painting": "style"}
N = 6


def a_benchmark_run(state: RunState = "queued", done: int = 0) -> Run:
    """A benchmark of three images."""
    return a_run(state, done).model_copy(update={"kind": "shift-benchmark"})


def benchmark_answer(state: RunState = "queued", done: int = 0) -> httpx.Response:
    """The answer that describes such a run."""
    return ok(a_benchmark_run(state, done).model_dump_json())


def benchmark_summary_answer(summary: ShiftBenchmarkSummary) -> httpx.Response:
    """The answer that holds such figures."""
    return ok(summary.model_dump_json(by_alias=True))


def benchmark_config(*image_sources: ImageSource) -> ShiftBenchmarkConfig:
    """What a benchmark of two classes under two shifts was resolved to."""
    return ShiftBenchmarkConfig(
        request=ShiftBenchmarkCreate(
            interface="interface-1", classifiers=list(MODELS), shifts=list(SHIFTS), n=N, seed=0,
            image_sources=list(image_sources or ("token",)),
        ),
        suite="fake",
        dataset="demo",
        dataset_digest="d" * 64,
        generation=GenerationPreset(steps=4, guidance=2.0),
        models={"editor": "sd@" + "c" * 12},
        versions={"counterpose": "0.1.0"},
        classes=list(CLASSES),
        labels=list(CLASSES),
        shifts=[
            BenchmarkShift(name="base", prompt="a photo of a <class>", caption="", family="base"),
            *(
                BenchmarkShift(
                    name=name, prompt=f"a photo of a <class> {name}", caption=f"a photo {name}",
                    family=family, photo=family != "style",
                )
                for name, family in SHIFTS.items()
            ),
        ],
        tokens=dict.fromkeys(CLASSES, TOKEN),
        clip="ViT-fake/tests",
    )  # fmt: skip


def counts(kept: int, *, no_object: int = 0, no_shift: int = 0) -> ImageCounts:
    """Images of which so many were kept and so many failed either criterion alone."""
    return ImageCounts(
        planned=kept + no_object + no_shift, kept=kept, without_object=no_object, without_shift=no_shift
    )


def an_effect(impact: Estimate, p_adjusted: float = 0.004) -> EffectSummary:
    """What a shift costs three models, of which better ones lose less."""
    drops = {
        name: ModelDrop(
            base=figure(base, base - 0.05, base + 0.05, 12),
            shifted=figure(shifted, shifted - 0.1, shifted + 0.1, 12),
            drop=figure(base - shifted, base - shifted - 0.1, base - shifted + 0.1, 12),
        )
        for name, base, shifted in zip(MODELS, (0.95, 0.9, 0.8), (0.85, 0.7, 0.45), strict=True)
    }
    slope = SlopeSummary(slope=figure(2.5, 1.5, 3.5, 3), without_one=(2.0, 3.0), leaning_on="leaning")
    return EffectSummary(
        classes=list(CLASSES), models=drops, impact=impact, p=0.002, p_adjusted=p_adjusted, slope=slope,
        probit_slope=slope,
    )  # fmt: skip


def a_shift(name: str, impact: Estimate | None, **told: object) -> ShiftSummary:
    """One shift by one image source; without an impact no class was left."""
    effect = None if impact is None else an_effect(impact)
    fields = {
        "counts": counts(9, no_object=2, no_shift=1), "share_kept": figure(0.75, 0.47, 0.91, 12),
        "thin": [] if effect else list(CLASSES), "to_object": figure(0.3, 0.28, 0.32, 12),
        "to_shift": figure(0.2, 0.18, 0.22, 12), "family": SHIFTS.get(name, "own"),
        "state": "suspected" if effect else "cannot-tell",
        "prompt": f"a photo of a <class> {name}", "caption": f"a photo {name}",
        "threshold": ThresholdInForce(threshold=0.15, set_by="suite"),
        "effect": effect, "on_common": effect,
        "gap": GapSummary(real=figure(0.97), base=figure(0.9), gap=figure(0.07, 0.02, 0.12, 24)),
    }  # fmt: skip
    return ShiftSummary.model_validate(fields | told)


def an_image_source(**told: object) -> ImageSourceSummary:
    """One source's figures: snow costs much, painting could not be told."""
    rates = {
        name: {
            condition: ClassCondition(
                share_kept=figure(0.75, 0.4, 0.95, 6),
                models={model: figure(0.8, 0.4, 0.95, 5) for model in MODELS},
            )
            for condition in ("base", *SHIFTS)
        }
        for name in CLASSES
    }
    fields = {
        "base": ConditionSummary(
            counts=counts(11, no_object=1), share_kept=figure(0.92, 0.65, 0.99, 12),
            to_object=figure(0.33, 0.31, 0.35, 12),
        ),
        "shifts": {
            "in the snow": a_shift("in the snow", figure(0.22, 0.12, 0.31, 9)),
            "a painting": a_shift("a painting", None),
        },
        "common": [], "passed": figure(0.75, 0.55, 0.88, 24), "to_object": figure(0.3, 0.28, 0.32, 24),
        "to_shift": figure(0.2, 0.18, 0.22, 24), "classes": rates,
        "cost": Cost(unet_evaluations=288), "service_seconds": {"editor": 9.0},
        "evaluations_per_kept": 9.9, "seconds_per_kept": 0.31,
    }  # fmt: skip
    return ImageSourceSummary.model_validate(fields | told)


def a_benchmark_summary(**told: object) -> ShiftBenchmarkSummary:
    """A finished benchmark by tokens alone."""
    threshold = ObjectThresholdSummary(
        threshold=figure(0.25, 0.22, 0.27, 24), plain=figure(0.2, 0.18, 0.22, 24),
        dropped=figure(0.05, 0.01, 0.2, 24),
    )  # fmt: skip
    real = RealSummary(
        images=48, failed=0, thresholds=dict.fromkeys(CLASSES, threshold),
        models=dict.fromkeys(MODELS, figure(0.97, 0.9, 0.99, 48)),
    )  # fmt: skip
    fields = {
        "run_id": "run-1", "interface": "interface-1", "dataset": "demo", "seed": 0,
        "object_percentile": 5.0, "image_sources": {"token": an_image_source()}, "real": real,
        "models": {
            name: ClassifierDescription(name=name, spec=name, architecture="test_vit") for name in MODELS
        },
        "counts": {"planned": 36, "done": 36, "filtered": 0, "failed": 0, "cancelled": 0, "pending": 0},
        "cost": Cost(unet_evaluations=288), "service_seconds": {"editor": 9.0}, "wall_s": 12.0,
        "config": benchmark_config("token"),
        "notes": ["no shift threshold, so only the object's criterion is applied: a painting"],
    }  # fmt: skip
    return ShiftBenchmarkSummary.model_validate(fields | told)


def prompt_rows() -> list[PromptAccuracy]:
    """A plate with and without food, by token and by name."""
    return [
        PromptAccuracy(
            model="leaning", image_source=image_source, condition=condition,
            prompt=f"a photo of a <class> {condition}",
            accuracy=figure(accuracy, accuracy - 0.1, accuracy + 0.1, 6),
            drop=None if condition == "base" else figure(0.3, 0.1, 0.5, 6),
            beside_token=None if image_source == "token" else figure(0.1, -0.1, 0.3, 6),
        )
        for image_source, accuracy in (("token", 0.8), ("class-name", 0.6))
        for condition in ("base", "in the snow")
    ]  # fmt: skip


def some_inspections() -> Inspections:
    """One percentile's image."""
    image = InspectedImage(
        item="i1", image=hashlib.sha256(b"1").hexdigest(), class_name="plate", similarity=0.15
    )
    return Inspections(
        shift="in the snow", caption="a photo in the snow", checkpoint="ViT-fake/tests", image_source="token",
        n=12, pending=0, inspections=[Inspection(percentile=20.0, similarity=0.15, images=[image])],
    )  # fmt: skip


def a_decision() -> ShiftThresholdDecision:
    """Somebody accepted a similarity."""
    return ShiftThresholdDecision(
        id=1, shift="in the snow", checkpoint="ViT-fake/tests", author="Ada", decided_at=NOW, threshold=0.15
    )


def some_thresholds() -> ShiftThresholds:
    """What is in force after that."""
    told = ThresholdInForce(threshold=0.15, set_by="person", author="Ada", decided_at=NOW)
    return ShiftThresholds(in_force={"in the snow": told}, decisions=[a_decision()])
