"""What a bug hunt found: baseline rates, descriptions, and the bugs that held-out images prove."""

from __future__ import annotations

from typing import Literal

from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.bug_hunts import BugHuntConfig, HypothesisSource
from counterpose_core.contract.failure_criteria import Criterion
from counterpose_core.contract.findings import FindingState
from counterpose_core.contract.runs import RequestCounts, RunSummary
from counterpose_core.contract.sampling_rules import RuleName
from counterpose_core.types import BlobRef, Cost, Estimate

HypothesisState = Literal["winner", "stopped", "not-above"]
"""``winner``: measured again on held-out images. ``stopped``: no more images were spent on it. ``not-above``:
it is not shown to fail more often than the baseline."""


class ShownFailures(ResponseBody):
    """Whether the images on which a classifier is wrong show the label: else the generator is at fault."""

    wrong: int
    """Images on which it is wrong."""
    shown: int
    """Of these, the images that show the label to CLIP or to any classifier; only they count."""
    by_clip: int | None
    """Of those that count, the ones that show it to CLIP, or null where no threshold is known."""
    recognised: dict[str, int] = {}
    """Of those that count, how many each other classifier answers rightly."""
    rate_of_all: Estimate
    """Failure rate if every wrong answer counted."""


class FailureRate(ResponseBody):
    """How often a classifier fails on the images of one prompt."""

    failures: int
    """Images on which the classifier fails."""
    rate: Estimate
    """Failure rate with its 95 % interval, both by the rule of `sampling`; n counts images up to the one that
    decided."""
    criterion: Criterion
    """When an answer counts as a failure."""
    sampling: RuleName = "fixed"
    """By which rule its images were drawn."""
    evidence: ShownFailures | None = None
    """Whether the failures show the label; null where none was looked at."""
    made: int
    """Images that were planned."""
    dropped: dict[str, int] = {}
    """Planned images that count neither as failure nor as success, by reason."""


class RatioOfRates(ResponseBody):
    """How many times the baseline's failure rate."""

    ratio: float | None
    """The ratio, or null if no image of the baseline failed."""
    low: float
    """Lower end of the 95 % interval."""
    high: float | None
    """Upper end of the 95 % interval, or null if it is unbounded."""


class LabelBaseline(ResponseBody):
    """How often one classifier fails on images of one label without a description."""

    label: str
    """The label."""
    classifier: str
    """Name of the classifier."""
    prompt: str
    """Prompt of the images."""
    failure: FailureRate
    """The failure rate."""
    taken_for: dict[str, int]
    """Number of failures by the class that is predicted first, the most frequent first."""


class HypothesisResult(ResponseBody):
    """One description and what was seen of it before held-out images."""

    number: int
    """Number of the description in the hunt, from 1."""
    label: str
    """The label."""
    classifier: str
    """The classifier whose failures proposed it."""
    prompt: str
    """Prompt of its images."""
    words: str
    """The words of the description beside the label."""
    source: HypothesisSource
    """Where the description comes from."""
    discovery: FailureRate
    """Failure rate on the images that it was chosen by, which overstates the true rate of a winner."""
    ratio: RatioOfRates
    """The same against the baseline."""
    state: HypothesisState
    """What became of it."""


class BugImage(ResponseBody):
    """A held-out image on which the classifier fails."""

    item: str
    """Id of its item."""
    image: BlobRef
    """SHA-256 of the image in the store."""
    answer: str
    """Class that the classifier predicts first."""


class EditedFailure(BugImage):
    """An image of an edited caption on which the classifier fails."""

    caption: str
    """The edited caption."""


class EditedCaptions(ResponseBody):
    """Images of captions that the language model edited: scenes that a label alone hardly ever shows."""

    label: str
    """The label."""
    classifier: str
    """Name of the classifier."""
    captions: int
    """Number of different captions among them."""
    lacking: int = 0
    """Images of the label's share that were not made, as there were too few different captions: none is drawn
    twice."""
    dropped: dict[str, int]
    """Edited captions of which no image was planned, by reason, such as `lost-label`."""
    failure: FailureRate
    """How many of the images fail. Each is of another scene: it is the rate of no prompt."""
    taken_for: dict[str, int]
    """Number of failures by the class that is predicted first, the most frequent first."""
    failed: list[EditedFailure] = []
    """At most 12 of the images that fail."""


Need = Literal["needed", "not-needed", "cannot-tell"]
"""Whether the words that a shorter form leaves out are needed for the failures."""


class RefinedForm(ResponseBody):
    """A shorter form of a winner, measured beside it on new images."""

    number: int
    """Number of the form in the hunt."""
    refines: int
    """Number of the description that it is a form of."""
    prompt: str
    """Prompt of its images."""
    left_out: str
    """The words that it leaves out."""
    rule: Literal["part", "adjective"]
    """`part`: one part of the description alone; `adjective`: all but one adjective."""
    failure: FailureRate
    """Failure rate on its images."""
    need: Need
    """`needed` if the winner fails more often (Fisher's exact test, corrected over the forms of one rule by
    Holm's method); `not-needed` if the form surely keeps half of the rate; else `cannot-tell`."""


class PhotographRates(ResponseBody):
    """How often a classifier fails on photographs that fit a description, and on others of the label."""

    described: FailureRate
    """Photographs that fit the description."""
    alone: FailureRate
    """Other photographs of the label."""
    p: float
    """One-sided p of `they fail no more often` by Fisher's exact test, uncorrected."""


class Confusion(ResponseBody):
    """How often failures are taken for one class, before and after the description (the paper's figure 2)."""

    answer: str
    """Class that is predicted first."""
    described: int
    """Number of held-out images of the description."""
    baseline: int
    """Number of held-out images of the label alone."""


NodeKind = Literal["baseline", "description", "form", "held-out"]


class SearchNode(ResponseBody):
    """One prompt of the search: the label alone, a description, a shorter form of it, or held-out images."""

    number: int
    """Place in the list, from 0."""
    parent: int | None
    """Number of the node that it came from, or null for a label alone."""
    kind: NodeKind
    """What its images are for."""
    label: str
    """The label."""
    classifier: str
    """Name of the classifier."""
    prompt: str
    """Prompt of its images."""
    outcome: str
    """What became of it, in a word or two."""
    failure: FailureRate
    """Failure rate on its images."""
    seconds: float
    """Seconds that the services spent on its images."""
    images: list[BugImage] = []
    """Some of its images that fail."""


class Bug(ResponseBody):
    """A description of a label's images on which one classifier fails, measured on held-out images."""

    number: int
    """Place in the list, from 1."""
    state: FindingState
    """`breaks` if held-out images prove that it fails more often than the baseline; `suspected` if they were
    not made; `holds` if it fails no more often there; `test-unfit` if most of them do not show the label;
    else `cannot-tell`."""
    description: str
    """The prompt of the images, which names the label."""
    words: str
    """The words of the description beside the label."""
    label: str
    """The label."""
    classifier: str
    """Name of the classifier."""
    hypothesis: int
    """Number of the description in the hunt."""
    failure_rate: Estimate
    """Failure rate on held-out images of the suite's generator, with its 95 % interval: what further images
    of this generator do, not a user's own."""
    at_least: float | None = None
    """Failure rate that a user's images of the description reach with 95 % confidence, given how rates on the
    generator's images missed those of its world; null of bugs that are not proven, under other rules than
    `fixed`, and where the suite's generator was not measured."""
    ratio: RatioOfRates
    """The same against held-out images of the baseline."""
    held_out: FailureRate
    """The counts behind the failure rate."""
    baseline: FailureRate
    """Held-out images of the label alone."""
    discovery: FailureRate
    """What the hunt saw when it chose the description."""
    p_adjusted: float | None
    """One-sided p after Holm's correction over all bugs of the hunt: by Fisher's exact test, or under other
    rules than `fixed` by pairs of images from one noise, which holds at every stop. Null without held-out
    images."""
    found_as: str | None = None
    """The prompt as it was found, where refinement made it shorter; else null."""
    unrefined: FailureRate | None = None
    """Failure rate of the winner on the new images that its shorter forms are compared with; null without
    refinement."""
    refinement: list[RefinedForm] = []
    """Its shorter forms, in the order in which they were tried."""
    mentions: Estimate | None = None
    """Share of captions of held-out images of the label alone that have the bug's words, with its 95 %
    interval; n counts captions. Null if none was written."""
    contribution: Estimate | None = None
    """Share of all images of the label that fail as the bug says: `mentions` times the failure rate, with its
    95 % interval. Null if no caption was written."""
    taken_for: str | None
    """Class that failures are most often taken for, or null without one."""
    confusions: list[Confusion] = []
    """What held-out failures of the description and of the label alone are taken for: at most 15 classes, the
    most frequent first."""
    photographs: PhotographRates | None = None
    """The same on the user's photographs, or null without any."""
    others: dict[str, FailureRate] = {}
    """Failure rates of the hunt's other classifiers on the same held-out images."""
    images: list[BugImage] = []
    """Some held-out images on which it fails."""
    sentence: str
    """The bug in one sentence."""

    def __str__(self) -> str:
        return f"{self.number} {self.state.replace('-', ' ')}: {self.sentence}"


class LabelObject(ResponseBody):
    """Below which similarity an image does not show its label."""

    threshold: float | None
    """CLIP's cosine: a percentile of the baseline images that some classifier answers rightly; null where
    there are too few."""
    n: int
    """Number of these images."""


class FailureCluster(ResponseBody):
    """Failures of one classifier that are described together."""

    label: str
    """The label."""
    classifier: str
    """Name of the classifier."""
    answer: str
    """Class that they are most often taken for."""
    n: int
    """Number of failures."""
    images: list[BugImage] = []
    """Some of them."""


class ComponentRate(ResponseBody):
    """How often a classifier fails on images of one prompt of a mixture."""

    number: int
    """Place among the mixture's prompts, from 1; 0 is the label alone."""
    prompt: str
    """Prompt of its images."""
    share: float
    """Share of the mixture's images that are drawn from it."""
    pilot_images: int
    """Images of the hunt, or of its own, by which new ones were divided; they count nowhere."""
    pilot_failures: int
    """Failures among them."""
    failure: FailureRate
    """Failure rate on its images."""


class MixtureRate(ResponseBody):
    """How often a classifier fails on images of a label that are drawn as the mixture says."""

    label: str
    """The label."""
    classifier: str
    """Name of the classifier."""
    rate: Estimate
    """Failure rate of the mixture: unbiased, with a 95 % interval for weighted counts of rare events (Fay and
    Feuer 1997). Null while a prompt of it has no image that counts."""
    components: list[ComponentRate]
    """Its prompts, the label alone last."""
    sentence: str
    """The rate in one sentence."""


class BugHuntSummary(RunSummary):
    """``GET /v1/runs/{id}/summary``."""

    kind: Literal["bug-hunt"] = "bug-hunt"
    """Kind of the run."""
    run_id: str
    """Id of the run."""
    config: BugHuntConfig
    """The run's resolved configuration."""
    request_counts: RequestCounts
    """Number of items in each state."""
    images: int
    """Images that were made."""
    seconds: float
    """Seconds that the services spent."""
    baselines: list[LabelBaseline]
    """Failure rates of the labels alone."""
    objects: dict[str, LabelObject]
    """Object thresholds, by label."""
    edited: list[EditedCaptions] = []
    """Failures on images of edited captions, by label and classifier."""
    clusters: list[FailureCluster] = []
    """The clusters of failures of each label and classifier, the largest first."""
    captions: dict[str, int]
    """Captions that were used, and those left out, by reason, such as `lost-label`."""
    hypotheses: list[HypothesisResult]
    """The descriptions that were measured."""
    bugs: list[Bug]
    """The winners on held-out images, those that are proven first."""
    tree: list[SearchNode] = []
    """The search from each label alone to held-out images, each node after its parent."""
    mixtures: list[MixtureRate] = []
    """Failure rates of the mixture of prompts, by label and classifier."""
    failed_codes: dict[str, int] = {}
    """Number of failed items, by error code."""
    filtered: dict[str, int] = {}
    """Number of filtered items, by reason, such as `policy`."""
    cost: Cost
    """Cost of the run."""
    verdict: str
    """The hunt in one sentence."""

    def __str__(self) -> str:
        rates = (each.sentence for each in self.mixtures)
        return "\n".join([self.verdict, *map(str, self.bugs), *rates])
