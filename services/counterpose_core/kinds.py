"""The kinds of runs: one table, from which paths, titles, SDK, commands and pages come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

RunKind = Literal[
    "stress-test",
    "dataset-interface",
    "shift-benchmark",
    "bug-hunt",
    "adversarial-dataset",
    "transfer",
    "gate",
]
"""The names of `KINDS`, for type checkers and HTTP bodies."""

_StressTestItem = Literal[
    "edit",
    "reconstruction",
    "placebo",
    "lance-r",
    "intervention",
    "caption",
    "confirmation",
    "transforms",
]
ItemKind = Literal[_StressTestItem, "token", "image", "sample", "clustering", "combination"]
"""The items of `KINDS`, for type checkers and HTTP bodies.

``lance-r`` is an edit by LANCE's random baseline (section 4.1), ``intervention`` an edit that the user chose;
``caption`` is the caption of a source image that is kept for confirmation, ``confirmation`` an edit of it by
a change of words that the run's screen chose;
``token`` is a class that a dataset interface learns as a token, ``image`` an image of a shift benchmark or a
transfer, a pair of images of a gate, or a real image that an adversarial dataset is compared with, ``sample``
a generated image of a bug hunt or an adversarial dataset, ``clustering`` the clusters of a hunt's failures,
``combination`` the likeliest sentences for them.
"""


@dataclass(frozen=True)
class Kind:
    """A kind of runs.

    Attributes:
        name: stands in requests, in the ledger and in addresses.
        title: the name in words.
        path: where its runs are created, below ``/v1``.
        items: the kinds of items that its runs may have.
        about: what its command does, in one sentence.
    """

    name: RunKind
    title: str
    path: str
    items: tuple[ItemKind, ...]
    about: str

    @property
    def resource(self) -> str:
        """What the SDK calls its runs: the attribute of a client, and the module."""
        return self.path.replace("-", "_")


_KINDS = (
    Kind(
        "stress-test",
        "Stress test",
        "stress-tests",
        get_args(_StressTestItem),
        "Stress-test classifiers on a dataset (LANCE).",
    ),
    Kind(
        "dataset-interface",
        "Dataset interface",
        "dataset-interfaces",
        ("token",),
        "Learn one token per class of a dataset, or take published ones (Dataset Interfaces).",
    ),
    Kind(
        "shift-benchmark",
        "Shift benchmark",
        "shift-benchmarks",
        ("image",),
        "Benchmark classifiers on shifts of an interface's classes.",
    ),
    Kind(
        "bug-hunt",
        "Bug hunt",
        "bug-hunts",
        ("sample", "caption", "clustering", "combination"),
        "Find descriptions of images on which classifiers fail (Wiles et al.).",
    ),
    Kind(
        "adversarial-dataset",
        "Adversarial dataset",
        "adversarial-datasets",
        ("sample", "caption", "image"),
        "Generate images that classifiers get wrong, from captions (Wiles et al.).",
    ),
    Kind(
        "transfer",
        "Transfer",
        "transfers",
        ("image",),
        "Show images that fool the classifiers of a run to others (Wiles et al.).",
    ),
    Kind(
        "gate",
        "Gate",
        "gates",
        ("image",),
        "Compare candidates with the incumbent on the same counterfactuals: is any change a regression?",
    ),
)
KINDS: Mapping[RunKind, Kind] = MappingProxyType({kind.name: kind for kind in _KINDS})
"""Every kind by its name."""


def title_of(kind: str) -> str:
    """Return a kind's title; of a kind that this version does not know, its name."""
    return next((each.title for each in _KINDS if each.name == kind), kind)


def unknown_kind(kind: str) -> str:
    """Say that this version does not know a kind, and what to do."""
    return f"this version of Counterpose knows no kind of run {kind!r}; update it"
