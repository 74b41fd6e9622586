"""The report of a bug hunt: bugs with images and mistakes, the search, and every rate with its n."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from counterpose_core.contract.bug_hunt_summary import Bug, BugHuntSummary, BugImage, Confusion, SearchNode
from counterpose_core.contract.runs import Run
from counterpose_gateway.images.png import GENERATED_SOURCE_TYPE
from counterpose_gateway.reports.environment import TEMPLATES
from counterpose_gateway.reports.images import Album, Inline
from counterpose_gateway.reports.plots import Plot, fitted_axis, plot
from counterpose_gateway.reports.states import BADGES

_THUMBNAIL = 160
MOST_TREES = 6
"""Searches that a report shows, those with bugs first: each has images of all its nodes."""

Shown = list[tuple[str, Inline | None]]
"""Images with the classifier's answer to each."""


@dataclass(frozen=True)
class ShownBug:
    """A bug, the images that it is shown by, and its mistakes with their shares in per cent."""

    bug: Bug
    images: Shown
    mistakes: list[tuple[Confusion, float, float]]


@dataclass(frozen=True)
class Tree:
    """A node of the search with its images and what came from it."""

    node: SearchNode
    images: Shown
    children: list[Tree] = field(default_factory=list)


@dataclass(frozen=True)
class Curse:
    """Discovery rates beside held-out ones, which no choice has seen."""

    plot: Plot
    sentence: str


def render(summary: BugHuntSummary, run: Run, read_image: Callable[[str], bytes]) -> str:
    """Write the report; ``read_image`` returns an image's bytes by its reference."""
    album = Album(read_image, longest=_THUMBNAIL)
    shown = [ShownBug(bug, _images(bug.images, album, run.id), _mistakes(bug)) for bug in summary.bugs]
    config = summary.config.model_dump(mode="json")
    roots = [node for node in summary.tree if node.parent is None and _has_children(node, summary.tree)]
    proven = {(bug.label, bug.classifier) for bug in summary.bugs}
    roots.sort(key=lambda node: (node.label, node.classifier) not in proven)
    context = {
        "summary": summary,
        "run": run,
        "badges": BADGES,
        "shown": shown,
        "curse": winners_curse(summary.bugs),
        "trees": [_tree(node, summary.tree, album, run.id) for node in roots[:MOST_TREES]],
        "left_out_trees": len(roots[MOST_TREES:]),
        "config": json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False),
    }
    return TEMPLATES.get_template("bug_hunt/report.html.j2").render(context, images=album.images)


def winners_curse(bugs: Sequence[Bug]) -> Curse | None:
    """Return both rates of each bug that has both, and how far apart they are in the mean."""
    both = [bug for bug in bugs if bug.discovery.rate.n and bug.held_out.rate.n]
    if not both:
        return None
    groups = {
        f"{bug.number}: {bug.words or bug.description}": {
            "discovery": bug.discovery.rate,
            "held out": bug.held_out.rate,
            "the label alone": bug.baseline.rate,
        }
        for bug in both
    }
    figures = [figure for each in groups.values() for figure in each.values()]
    fallen = [
        bug.discovery.rate.estimate - bug.held_out.rate.estimate
        for bug in both
        if bug.discovery.rate.estimate is not None and bug.held_out.rate.estimate is not None
    ]
    mean = float(np.mean(fallen)) if fallen else 0.0
    direction = "lower" if mean >= 0.0 else "higher"
    return Curse(
        plot(groups, fitted_axis(figures, around=0.0, bounds=(0.0, 1.0)), percent=True),
        f"the held-out rate of {len(fallen)} description{'s' * (len(fallen) != 1)} is "
        f"{100 * abs(mean):.1f} points {direction}{' in the mean' * (len(fallen) != 1)}",
    )


def _mistakes(bug: Bug) -> list[tuple[Confusion, float, float]]:
    return [
        (each, _share(each.described, bug.held_out.rate.n), _share(each.baseline, bug.baseline.rate.n))
        for each in bug.confusions
    ]


def _share(number: int, of: int) -> float:
    return round(100 * number / of, 1) if of else 0.0


def _has_children(node: SearchNode, nodes: Sequence[SearchNode]) -> bool:
    return any(each.parent == node.number for each in nodes)


def _tree(node: SearchNode, nodes: Sequence[SearchNode], album: Album, run: str) -> Tree:
    children = [_tree(each, nodes, album, run) for each in nodes if each.parent == node.number]
    return Tree(node, _images(node.images, album, run), children)


def _images(images: Sequence[BugImage], album: Album, run: str) -> Shown:
    return [
        (each.answer, album.generated(each.image, run=run, item=each.item, source_type=GENERATED_SOURCE_TYPE))
        for each in images
    ]
