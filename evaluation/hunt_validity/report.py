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


UNKNOWN = Estimate(estimate=None, low=None, high=None, n=0)
"""What a result file of an earlier version does not have."""


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

    Three readings of its description, on renderings. ``true_rate``: the whole caption plain, its style, and
    nothing which it does not speak of. ``user_rate``, the headline's: what its prompt names, all else as in
    the scenes of a user. ``words_rate``: the words that it adds to the label, all else as the generator was
    trained. ``covered``, ``user_covered``, ``words_covered``: whether its held-out interval has them.
    ``drawn_rate``, ``drawn_covered``: the same for further images of the generator, which is what the
    interval speaks of. ``at_least``: the rate that a user's scenes surely reach, as the product says.
    ``label_rate``: of the label's prompt read as a whole caption. ``drawn_label_rate``: of the label, all
    else as the generator was trained. ``difference``: held-out rate less ``user_rate``; less ``true_rate``
    where that was not measured. ``hidden``: held-out images that do not show the label, by the hunt's own
    filter. ``surely_above``: ``true_rate`` lies above ``label_rate``. ``is_true``: the interval of
    ``user_rate`` lies above that of ``drawn_label_rate`` by the setting's ``effect``; where the setting has
    none, it names a planted bug or is surely above.
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
    user_rate: Estimate | None = None
    drawn_rate: Estimate | None = None
    drawn_label_rate: Estimate | None = None
    at_least: float | None = None
    covered: bool
    words_covered: bool
    user_covered: bool | None = None
    drawn_covered: bool | None = None
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

    ``request``: what all hunts share. ``hunts``: done, of ``planned``. ``effect``: by how much a true finding
    fails more often. ``drawn``: further images of each.
    """

    stretches: list[int]
    classifiers: int
    controls: int
    planted: int
    hunts: int
    planned: int
    request: dict[str, Any]
    scenes: int
    scenes_of_a_finding: int
    effect: float | None = None
    drawn: int | None = None


class HuntFigures(Part):
    """The figures over all hunts.

    ``recall_of_strong``: of bugs with a true rate of 0.3 or more. ``precision``: findings that are true;
    ``surely_above``: by their rates on renderings, whatever they name.
    ``control_hunts_with_a_finding``: hunts of a label without a planted bug by classifiers without any.
    ``covered``: findings whose held-out interval has the true rate, those that name a planted bug;
    ``words_covered``: that has the rate of what the description adds to the label, whatever else is shown;
    ``user_covered``, ``drawn_covered``: that has the rate on a user's scenes, and on further images of the
    generator. ``at_least_holds``: the rate on a user's scenes reaches what the product says it surely does.
    ``generator_gap``: standard deviation of the log-odds by which rates on a user's scenes differ from
    those on the generator's images, sampling apart: what a suite states. All of findings that break,
    whether or not they name a bug, but for ``covered`` and ``words_covered``.
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
    user_covered: Estimate = UNKNOWN
    drawn_covered: Estimate = UNKNOWN
    at_least_holds: Estimate = UNKNOWN
    generator_gap: float | None = None
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
