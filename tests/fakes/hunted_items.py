"""Recorded items of a hunt, without a ledger: samples with answers, and a configuration for them."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping, Sequence

from counterpose_core.contract.bug_hunts import (
    BugHuntConfig,
    BugHuntCreate,
    HuntBudget,
    HuntInstruction,
    HuntItem,
    HuntResult,
    HuntShares,
    Weighed,
)
from counterpose_core.contract.editor import GenerationPreset
from counterpose_core.contract.runs import RequestCounts, Run
from counterpose_core.contract.sampling_rules import FixedNumber, SamplingRule
from counterpose_core.contract.scored import Scored
from counterpose_core.tasks.classification import ranked

CLASSES = ["fly", "bee", "bus", "tram"]
EXAMPLE = "e" * 64
FIXED = FixedNumber()
MORNING = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def hunt_config(
    *,
    minutes: float | None = None,
    shares: HuntShares | None = None,
    sampling: SamplingRule = FIXED,
    winners: int = 2,
    label: str = "fly",
) -> BugHuntConfig:
    """A hunt of one label by one classifier."""
    request = BugHuntCreate(
        classifiers=["model"], labels=[label], budget=HuntBudget(images=600, minutes=minutes), held_out=64,
        seed=1, sampling=sampling, winners=winners,
    )  # fmt: skip
    return BugHuntConfig(
        request=request,
        suite="miniature",
        generation=GenerationPreset(),
        models={},
        versions={},
        classes=CLASSES,
        templates={label: "a photo of a <class>"},
        prompts={label: f"a photo of a {label}"},
        examples={label: EXAMPLE},
        shares=shares or HuntShares(baseline=200, hypotheses=200, held_out=64),
        detectable=0.1,
        clip="clip",
    )


def hunt_run(config: BugHuntConfig, stage: int) -> Run:
    """The run of this configuration, at the end of a stage."""
    counts = RequestCounts(total=0, pending=0, done=0, filtered=0, failed=0, cancelled=0)
    return Run(
        id="run-1", kind="bug-hunt", state="finalizing", dataset="", request_counts=counts, stage=stage,
        created_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), resolved_config=config.model_dump(mode="json"),
    )  # fmt: skip


def sample(
    number: int,
    answer: str = "fly",
    *,
    told: HuntInstruction | None = None,
    image: str | None = None,
    similarity: float | None = 0.3,
    others: Mapping[str, str] | None = None,
    seconds: float = 0.0,
    stage: int = 1,
    place: int | None = None,
    label: str = "fly",
) -> HuntItem:
    """An image of a label with the answer of the classifier, and of ``others``."""
    answers = {"model": answer} | dict(others or {})
    result = HuntResult(
        image=image or hashlib.sha256(str(number).encode()).hexdigest(),
        prompt=f"a photo of a {label}",
        seed=number,
        object_similarity=similarity,
        predictions={name: _pair(said, label) for name, said in answers.items()},
        failed={name: said != label for name, said in answers.items()},
        service_seconds={"editor": seconds},
        began_at=MORNING if seconds else None,
        ended_at=MORNING + dt.timedelta(seconds=(number + 1) * seconds) if seconds else None,
    )
    return HuntItem(
        id=f"run-1.{number}", ordinal=number, kind="sample", item_group="g", source_image=EXAMPLE,
        label=label, slot=number if place is None else place, stage=stage, state="done", result=result,
        instruction=told or HuntInstruction(phase="baseline", prompt=f"a photo of a {label}"),
    )  # fmt: skip


def caption(of: HuntItem, text: str, *, prompt: str | None = None) -> HuntItem:
    """The caption of a sample's image, free or going on from a prompt."""
    number = 10_000 + of.ordinal
    return HuntItem(
        id=f"run-1.{number}", ordinal=number, kind="caption", item_group="c", source_image=EXAMPLE,
        label="fly", stage=2, state="done", result=HuntResult(image=EXAMPLE, caption=text),
        instruction=HuntInstruction(phase="captions", sample=of.id, prompt=prompt),
    )  # fmt: skip


def clustering(clusters: Mapping[str, int]) -> HuntItem:
    """The clusters of the classifier's failures."""
    return HuntItem(
        id="run-1.29000", ordinal=29_000, kind="clustering", item_group="k", source_image=EXAMPLE,
        label="fly", stage=2, state="done", result=HuntResult(image=EXAMPLE, clusters=dict(clusters)),
        instruction=HuntInstruction(phase="clusters", classifiers=["model"]),
    )  # fmt: skip


def combination(sentences: Sequence[str]) -> HuntItem:
    """The likeliest sentences for the classifier's failures."""
    combined = [
        Weighed(sentence=each, log_likelihood=float(place), images=3) for place, each in enumerate(sentences)
    ]
    return HuntItem(
        id="run-1.30000", ordinal=30_000, kind="combination", item_group="b", source_image=EXAMPLE,
        label="fly", stage=3, state="done", result=HuntResult(image=EXAMPLE, combined=combined),
        instruction=HuntInstruction(
            phase="combination", prompt="a photo of a fly", classifiers=["model"], sentences=list(sentences),
        ),
    )  # fmt: skip


def _pair(said: str, label: str) -> Scored:
    rank = 1 if said == label else 2
    return ranked(0.9 if rank == 1 else 0.1, rank, [(said, 0.9), ("bus", 0.1)])
