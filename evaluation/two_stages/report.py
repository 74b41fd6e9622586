"""`results/findings-validity.json`: what runs of one and of two stages find, by number of images."""

from __future__ import annotations

from typing import Literal

from counterpose_core.types import Estimate
from evaluation.validity.report import Aim, BugReport, Part, Verdict

Stages = Literal["one", "two"]

Fate = Literal[
    "found",
    "other-words",
    "no-caption",
    "no-edit",
    "gate",
    "wrong-edit",
    "not-chosen",
    "too-few-pairs",
    "not-shown",
]
"""What became of a planted bug in a run, the first that holds: a finding names it; findings show it on every
image under other words; no caption says its value; no edit of the screen asks for the change; none of these
passes the gate; none that does shows the change, by the oracle; the screen did not choose it (one stage:
no group of it could be tested); fewer pairs were kept than any proof takes; the test did not show it."""

Omission = Literal["not-tested", "two-conditions", "no-interval", "no-truth"]
"""Why the interval of a finding is not compared with its true loss: it was seen in the screen alone and has
none; its loss is beyond two single conditions, which ``make validate-conjunctions`` renders; no pair of its
test was whole; none of its edits changes one attribute of a scene to which a rendering could be made."""


class RunReport(Part):
    """One replayed run and its cost.

    ``made``: images that were generated and judged. ``evaluations``: of the editor's network.
    ``service_seconds``: as booked, waits included, on a machine that did other work beside it.
    """

    roster: str
    size: int
    part: int
    stages: Stages
    reason: str | None
    items: int
    made: int
    evaluations: int
    service_seconds: float
    hypotheses: int
    confirmed: int
    suspected: int


class ClaimReport(Part):
    """A finding that ``breaks`` or is ``suspected``, or was tested, compared with rendered truth.

    ``true_on_images``: on its own sources. ``true_on_class``: on all images of its class in the stretch
    to which its changes apply. ``verdict``: by the truth of the class. ``true_by_words``: on the class, of
    what the sentence says, such as a removal without replacement; null in results from before sentences were
    judged. ``conjunction``: it is about two conditions together; both verdicts, and ``true_by_words``, are of
    the fall under the two beyond the worse one. One stage: a significant insight.
    """

    roster: str
    size: int
    part: int
    stages: Stages
    state: str
    scope: Literal["class", "images"]
    classifier: str
    control: bool
    object_class: str
    edit_type: str
    removed: str
    added: str
    pairs: int
    sources: int
    estimate: Estimate
    stopped: bool
    true_on_images: Estimate
    true_on_class: Estimate
    bugs: list[str]
    verdict: Verdict
    conjunction: bool = False
    true_by_words: Estimate | None = None
    verdict_by_words: Verdict | None = None


class ChanceReport(Part):
    """A planted bug with a true drop of at least 0.3, in one run: a chance to find it."""

    roster: str
    size: int
    part: int
    stages: Stages
    classifier: str
    bug: str
    true_drop: float
    fate: Fate


class ControlReport(Part):
    """A classifier without bugs in one run, and how many findings that break it has; false ones apart."""

    roster: str
    size: int
    part: int
    stages: Stages
    classifier: str
    breaks: int
    false_alarms: int


class Coverage(Part):
    """The share of findings whose printed interval of the loss holds the rendered true loss.

    The truth is on all of the class where the interval speaks of it, else on the finding's own images.
    Intervals of shares resample classifiers.
    """

    all: Estimate
    by_state: dict[str, Estimate]
    left_out: dict[Omission, int]


class StageFigures(Part):
    """The figures of the runs of one size and kind.

    Shares of bugs and findings resample classifiers; a control in a run is one trial. ``bias``: estimated
    less true loss of findings that break, on their own images; ``bias_on_class`` against their class.
    ``precision`` judges findings by their edits, ``precision_by_words`` by what their sentences say;
    ``recall_by_words`` counts a bug as found only if a finding that names it is true of its words.
    ``evaluations_per_proof``: of the editor's network by runs with a planted bug, for each of their findings
    that break and are true, n counting these. Tests are stated when a run has ended, so all of its stages
    count. ``coverage``: of the intervals beside verdicts, whatever these are. Null in results from before it
    was measured.
    """

    runs: int
    recall: Estimate
    recall_by_words: Estimate | None = None
    fates: dict[str, int]
    precision: Estimate
    precision_by_words: Estimate | None = None
    false_alarms: Estimate
    controls_with_a_finding: Estimate
    controls_with_a_false_alarm: Estimate
    suspected_true: Estimate
    suspected_false: Estimate
    bias: Estimate
    bias_on_class: Estimate
    evaluations_per_proof: Estimate | None = None
    coverage: Coverage | None = None


class Setting(Part):
    """What was run; ``missing`` names the rosters that were not."""

    seed: int
    sources: int
    edits_per_source: int
    preset: str
    rosters: dict[str, list[str]]
    controls: list[str]
    missing: list[str]


class FindingsValidity(Part):
    """The report: figures by size (and ``all``) and number of stages, and everything that they count.

    ``suspected``: share of the suspicions of all runs, of either kind, that are true.
    """

    setting: Setting
    aims: list[Aim]
    figures: dict[str, dict[Stages, StageFigures]]
    by_scope: dict[str, StageFigures]
    suspected: Estimate
    bugs: list[BugReport]
    runs: list[RunReport]
    claims: list[ClaimReport]
    chances: list[ChanceReport]
    controls: list[ControlReport]
