"""Proofs: child runs that make more pairs for one finding, and the finding as all its runs tell it."""

from __future__ import annotations

from pydantic import Field

from counterpose_core.contract.base import ResponseBody
from counterpose_core.contract.classifiers import FunctionsOfCaller
from counterpose_core.contract.confirmation import SuspectedChange, Wording
from counterpose_core.contract.findings import Finding, FindingPair
from counterpose_core.types import Name, RunState, Seed

LEAST_CHANCE = 0.005
"""A smaller chance is printed as 0 %."""


def is_hopeless(images_needed: int | None, chance: float | None) -> bool:
    """Whether all that is left decides a finding in fewer than half of the futures, and a proof in 0 %."""
    return images_needed is None and chance is not None and chance < LEAST_CHANCE


class ProofCreate(FunctionsOfCaller):
    """``POST /v1/runs/{run_id}/findings/{number}/prove``: more images for one finding.

    ``functions``: the finding's classifier, where it is a function and the program that served it to the run
    has ended.
    """

    images: int = Field(default=20, ge=1, le=100)
    """Number of images to make a pair of; fewer if fewer are left. If none is left, so many pairs are drawn
    of a few images at hand, from noise of their own."""
    dataset: Name | None = None
    """Name of the dataset to take images from; null for that of the run."""
    seed: Seed | None = None
    """Seed of every random draw; null for one that follows from the run's own."""


class Proof(ResponseBody):
    """What a child run is to prove, fixed when it is created."""

    parent: str
    """Id of the ended run that has the finding."""
    finding: Finding
    """The finding as the run told it, without its pairs."""
    change: SuspectedChange
    """The change to make; an empty side is left open."""
    wordings: list[Wording]
    """The words by which captions show the change."""
    images: int
    """Number of pairs to make, each of an image of its own unless `drawn`."""
    drawn: bool = False
    """Whether no image was left without a pair, so that a few of those at hand are drawn again, several times
    each."""
    family: int
    """Number of findings of the run that one could have asked about; the evidence must hold for all of
    them."""

    @property
    def number(self) -> int:
        """Number of the finding in its run."""
        return self.finding.number

    @property
    def classifier(self) -> str:
        """The finding's classifier."""
        return self.finding.classifier

    @property
    def object_class(self) -> str:
        """The finding's class."""
        return self.finding.object_class


class OperationProof(ResponseBody):
    """What a child of a run of operations is to prove: an operation at a level, on fresh images alone."""

    parent: str
    """Id of the ended run that has the finding."""
    number: int
    """Number of the finding in that run."""
    classifier: str
    """The classifier."""
    operation: str
    """Name of the operation."""
    level: int
    """Its level."""
    object_class: str = Field(default="", exclude_if=lambda label: not label)
    """The class whose images alone it is carried out on; absent for those of all classes."""
    least_loss: float = Field(default=0.0, exclude_if=lambda loss: not loss)
    """Loss that must be shown to be exceeded, as in its run; absent where that is 0."""
    images: int
    """Number of images to carry it out on."""
    family: int
    """Number of operations and levels of the run that one could have asked about, of one class those of every
    class with tests; the evidence must hold for all of them."""


AnyProof = Proof | OperationProof
"""What a child run is to prove."""


class ProofRun(ResponseBody):
    """One run with pairs of a finding."""

    run_id: str
    """Id of the run."""
    state: RunState
    """State of the run."""
    dataset: str
    """Name of the dataset that its images are from."""
    planned: int
    """Number of pairs that were planned."""
    pairs: int
    """Number of pairs that were kept whole."""
    dropped: dict[str, int] = {}
    """Number of planned pairs left out, by reason."""
    e_value: float
    """Evidence of its pairs that the change costs p(true class); 1 without any, and while the run has not
    ended."""


class ProofPair(FindingPair):
    """One image with its control and its edit, and the run that made them."""

    run_id: str
    """Id of the run."""


class FindingHistory(ResponseBody):
    """``GET /v1/runs/{run_id}/findings/{number}``: a finding, and what its child runs add to it."""

    run_id: str
    """Id of the run that has the finding."""
    told: Finding
    """The finding as its own run tells it."""
    finding: Finding
    """The finding as all its ended runs tell it; its test is the joined one. The pairs of the screen are not
    among its pairs, since they chose it, unless there are no others."""
    runs: list[ProofRun]
    """The run and its children that prove this finding, oldest first."""
    pairs: list[ProofPair]
    """The pairs of all its ended runs, in planned order; none of the screen."""
    e_value: float
    """Product of the runs' e-values: the evidence that the change costs p(true class)."""
    e_value_needed: float
    """The evidence that proves it: `family` divided by the level of 0.05."""
    family: int
    """Number of findings of the run that one could have asked about."""
    images_needed: int | None
    """Number of further images, or draws where no image is left, that decide it in half of the simulated
    futures; 0 if it is decided, null if all that are left, or 200, decide it in fewer."""
    images_left: int | None = None
    """Number of images of its class in the run's dataset, as it stands, that a proof could still make a pair
    of, at most; null if the dataset was deleted."""
    redraws_left: int = 0
    """Number of pairs that a proof could draw of images at hand, where no image is left."""
    least_images: int = 1
    """Number of further images, or draws, without which nothing can be decided, even if each loses everything
    or each nothing. No proof is offered where fewer are left."""
    chance: float | None = None
    """Share of the simulated futures in which a proof on 20 images, or on all that are left if those are
    fewer, decides it; null if it is decided or none is left. No proof is offered where it is below 0.005 and
    `images_needed` is null."""
    outlook: str = ""
    """The forecast in a sentence, or that too little is left to prove it on and what to do; empty if it is
    decided."""

    @property
    def is_open(self) -> bool:
        """Whether a proof on the run's dataset could decide it, as far as is known."""
        if self.images_left is None:
            return True
        hopeless = is_hopeless(self.images_needed, self.chance)
        return not hopeless and self.images_left + self.redraws_left >= self.least_images

    def __str__(self) -> str:
        runs = f"{len(self.runs)} run{'s' if len(self.runs) != 1 else ''}"
        evidence = f"evidence {self.e_value:.3g} of {self.e_value_needed:.3g} needed, from {runs}"
        return "\n".join([str(self.finding), evidence, *filter(None, [self.outlook])])
