"""`results/hunt-validity.json`: which planted bugs hunts find, and what they say where none is planted."""

from __future__ import annotations

from typing import Any, Literal

from counterpose_core.types import Estimate
from evaluation.validity.report import Aim, Part

Fate = Literal["found", "not-proven", "not-chosen", "not-described", "not-seen", "always-fails", "not-shown"]
"""What became of a planted bug, the first that holds: a finding that breaks names its circumstance; held-out
images of a description that names it did not prove it; such a description was measured and not chosen;
descriptions were measured, and none names it; no image failed that could have been described; the label
failed on nearly every image; failures did not show the label, by the hunt's own filter."""


Missed = Literal["filter", "generator"]
"""What makes an interval miss the true rate: images that the hunt's filter hid, or the generator's images."""


class BugReport(Part):
    """A planted bug and what its hunt made of it.

    ``true_rate``: failures on renderings that show class and circumstance. ``label_rate``: on renderings of
    the class whatever else they show. ``alone``: whether the finding names nothing else.
    """

    classifier: str
    label: str
    bug: str
    attribute: str
    value: str
    strength: float
    true_rate: Estimate
    label_rate: Estimate
    fate: Fate
    alone: bool | None


class ClaimReport(Part):
    """A finding that breaks, compared with rendered truth.

    ``true_rate``: failures on renderings of what its description says as a whole caption: its style, and
    that there is nothing which it does not speak of. ``label_rate``: the same of the prompt of the label
    alone. ``covered``: whether its held-out interval has
    the true rate. ``difference``: held-out rate less true rate. ``words_rate``, ``words_covered``: the same
    for renderings of the words that it adds to the label, whatever else they show. ``hidden``: held-out
    images that do not show the label, by the hunt's own filter. ``surely_above``: the
    true rate's interval lies above that of the label alone. ``is_true``: that, or it names a planted bug.
    """

    classifier: str
    label: str
    is_control: bool
    description: str
    source: str
    held_out: Estimate
    discovery: Estimate
    true_rate: Estimate
    label_rate: Estimate
    words_rate: Estimate
    covered: bool
    words_covered: bool
    hidden: int
    missed_by: Missed | None
    difference: float
    names_bug: bool
    surely_above: bool
    is_true: bool


class HuntReport(Part):
    """One hunt: a classifier and a label, and the bugs that were planted there."""

    classifier: str
    label: str
    bugs: list[str]
    images: int
    descriptions: int
    findings: int
    baseline_failures: Estimate


class Setting(Part):
    """What was run, and of how much that was planned.

    ``request``: what all hunts share. ``hunts``: done, of ``planned``.
    """

    stretch: int
    classifiers: int
    controls: int
    planted: int
    hunts: int
    planned: int
    request: dict[str, Any]
    scenes: int
    scenes_of_a_finding: int


class HuntFigures(Part):
    """The figures over all hunts.

    ``recall_of_strong``: of bugs with a true rate of 0.3 or more. ``precision``: findings that are true;
    ``surely_above``: by their rates on renderings, whatever they name.
    ``control_hunts_with_a_finding``: hunts of a label without a planted bug by classifiers without any.
    ``covered``: findings whose held-out interval has the true rate, those that name a planted bug;
    ``words_covered``: that has the rate of what the description adds to the label, whatever else is shown.
    """

    recall_of_strong: Estimate
    recall: Estimate
    alone: Estimate
    precision: Estimate
    surely_above: Estimate
    control_hunts_with_a_finding: Estimate
    control_hunts_with_a_false_finding: Estimate
    covered: Estimate
    words_covered: Estimate
    difference: Estimate
    winners_curse: Estimate


class HuntValidity(Part):
    """The result file."""

    setting: Setting
    aims: list[Aim]
    figures: HuntFigures
    fates: dict[str, int]
    by_attribute: dict[str, Estimate]
    bugs: list[BugReport]
    claims: list[ClaimReport]
    hunts: list[HuntReport]
