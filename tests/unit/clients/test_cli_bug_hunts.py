"""``counterpose bug-hunt``: how criteria, rules and parents are written, and the dry run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import TypeAdapter

from counterpose._cli.bug_hunt import criterion_named, mixture_of, parents_of, sampling_named
from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.mixtures import Mixture
from counterpose_core.contract.sampling_rules import SamplingRule
from counterpose_core.errors import InvalidRequest
from fakes.command import Play, run
from fakes.estimates import HUNT_ESTIMATE
from fakes.sdk import ok


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("top-1", {"name": "top-1"}),
        ("no-relative", {"name": "no-relative"}),
        ("not-in-top", {"name": "not-in-top"}),
        ("not-in-top=5", {"name": "not-in-top", "k": 5}),
        ("low-confidence=0.2", {"name": "low-confidence", "below": 0.2}),
        ("taken-for=honey bee", {"name": "taken-for", "target": "honey bee"}),
    ],
)
def test_a_criterion_is_a_name_with_its_value(text: str, read: dict[str, Any]) -> None:
    assert criterion_named(text) == read
    TypeAdapter[Any](Criterion).validate_python(read)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("worst", "unknown criterion 'worst': choose from top-1"),
        ("top-1=3", "takes no value"),
        ("low-confidence", "needs its below"),
        ("taken-for", "needs its target"),
        ("not-in-top=few", "'few' is no k of the criterion 'not-in-top'"),
    ],
)
def test_a_criterion_that_cannot_be_read_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        criterion_named(text)


def test_a_mixture_is_prompts_with_their_shares() -> None:
    snow = "a photo of a <class> in the snow"
    told = mixture_of([f"{snow}=0.001", "a <class> = b=1e-2"], 500)
    assert told == {
        "images": 500,
        "components": [{"prompt": snow, "share": 0.001}, {"prompt": "a <class> = b", "share": 0.01}],
    }
    Mixture.model_validate(told)
    for text in (snow, f"{snow}=rarely"):
        with pytest.raises(InvalidRequest, match="has no share: write PROMPT=SHARE"):
            mixture_of([text], 500)


def test_parents_are_pairs() -> None:
    assert parents_of(["fly=insect", "bus=motor vehicle"]) == {"fly": "insect", "bus": "motor vehicle"}
    with pytest.raises(InvalidRequest, match="'fly' names no parent"):
        parents_of(["fly"])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("fixed", {"name": "fixed"}),
        ("inverse", {"name": "inverse"}),
        ("inverse=50", {"name": "inverse", "failures": 50}),
        ("sequential=0.05", {"name": "sequential", "threshold": 0.05}),
    ],
)
def test_a_sampling_rule_is_a_name_with_its_value(text: str, read: dict[str, Any]) -> None:
    assert sampling_named(text) == read
    TypeAdapter[Any](SamplingRule).validate_python(read)


def test_a_sampling_rule_that_cannot_be_read_is_named() -> None:
    with pytest.raises(InvalidRequest, match="unknown sampling rule 'all': choose from fixed, inverse"):
        sampling_named("all")
    with pytest.raises(InvalidRequest, match="'many' is no failures of the sampling rule 'inverse'"):
        sampling_named("inverse=many")


def test_a_dry_run_tells_what_can_be_found_and_starts_nothing(play: Play) -> None:
    script = play(ok(HUNT_ESTIMATE))
    shown = run(
        "bug-hunt", "--classifier", "leaning-vit", "--label", "fly", "--images", "600",
        "--sampling", "inverse=10", "--dry-run",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.stderr
    (asked,) = script.seen
    assert asked.url.path == "/v1/bug-hunts/estimate"
    assert json.loads(asked.content)["sampling"] == {"name": "inverse", "failures": 10}
    assert shown.stdout.splitlines() == [
        "at most 600 images and 64 captions, about 10 minutes (8 to 20, by 3 earlier hunts)",
        "a label that fails on 1.9 % of its images or more shows two failures, as descriptions need, with "
        "probability 0.8",
        "a description that fails on 8 % or more is proven with probability 0.8, where the label alone never "
        "fails",
    ]


def test_an_estimate_says_why_nothing_can_be_found() -> None:
    found = BugHuntEstimate.model_validate(
        HUNT_ESTIMATE
        | {"minutes": None, "runs": 0, "images_in_time": 90, "shares": None, "reason": "90 images are few"}
    )
    assert str(found).splitlines() == [
        "at most 600 images and 64 captions, minutes unknown: no earlier hunt to go by",
        "in its minutes about 90 images",
        "Nothing can be found: 90 images are few.",
    ]
