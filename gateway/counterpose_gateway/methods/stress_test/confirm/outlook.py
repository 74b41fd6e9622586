"""What more images could do for a finding: how many are left, and how many would probably decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.random import Generator

from counterpose_core.commands import PROVE_IMAGES
from counterpose_core.contract.findings import Finding
from counterpose_core.contract.proofs import is_hopeless
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import UnknownDataset
from counterpose_core.stress_test.forecast import HORIZON, Forecast, Supply, forecast_proof, least_images
from counterpose_core.stress_test.proof import join
from counterpose_core.stress_test.screening import Change
from counterpose_gateway.methods.stress_test.confirm.images_left import left_of, sources_of
from counterpose_gateway.methods.stress_test.confirm.proof_stages import draws_of, must_draw
from counterpose_gateway.methods.stress_test.groups import in_group
from counterpose_gateway.methods.stress_test.summary.joined_runs import JoinedFinding, change_of
from counterpose_gateway.methods.stress_test.summary.suspicion import figure_of
from counterpose_gateway.reports.numbers import counted, percent
from counterpose_gateway.runs.seeds import derive_seed

if TYPE_CHECKING:
    from counterpose_core.types import EditType
    from counterpose_gateway.ledger import Ledger

LEFT_UNKNOWN = "Whether images are left to prove it on is not known: its dataset was deleted."


@dataclass(frozen=True)
class Outlook:
    """What further proofs of a finding can do; ``left`` is None if the dataset is gone.

    ``left`` images of the class can still give a pair, at most. Where there is none, ``draws`` pairs can be
    drawn of images at hand by one proof. ``needed`` is how many images, or draws, decide the finding in half
    of the simulated futures: 0 if it is decided, None if all that are left do not. ``least`` could decide
    it at best, and ``chance`` is the share of futures that a proof of the usual size decides.
    """

    label: str
    dataset: str
    left: int | None
    draws: int
    needed: int | None
    least: int = 1
    chance: float | None = None

    @property
    def is_offered(self) -> bool:
        """Whether a proof could decide it."""
        return self._is_enough and not self.is_hopeless

    @property
    def is_hopeless(self) -> bool:
        """Whether what is left decides it in no simulated future worth a word."""
        return self.left is not None and is_hopeless(self.needed, self.chance)

    @property
    def _is_enough(self) -> bool:
        return self.left is None or self.left + self.draws >= self.least

    @property
    def sentence(self) -> str:
        """The forecast, or why there is nothing to prove it on and what to do; empty if it is decided."""
        if self.needed == 0:
            return ""
        more = ""
        if self.needed is not None:
            more = f"About {self._many(self.needed)} would decide it in half of the simulated futures. "
        if self.left is None:
            return more + LEFT_UNKNOWN
        of = f" of {self.label!r}" if self.label else ""
        if not self._is_enough:
            add = f"upload more images{' of that class' if of else ''}, or name another dataset (--dataset)."
            if not self.left + self.draws:
                return f"{more}No image{of} is left in dataset {self.dataset!r} to prove it on: {add}"
            few = counted(self.left or self.draws, "image" if self.left else "repeat")
            return (
                f"{more}Dataset {self.dataset!r} has {few}{of} left to prove it on, and it takes at least "
                f"{self.least}: {add}"
            )
        usual = "" if self.chance is None else f"{self._usual} in {percent(self.chance)} of these futures."
        if more:
            return (more + usual).rstrip()
        number = min(self.left or self.draws, HORIZON)
        would = f"{self._many(number)} would decide it in fewer than half of the simulated futures"
        if number < HORIZON:
            would += f", and no more than these are left: upload more images{of}, or name another dataset"
        return f"{would}. {usual}".rstrip()

    @property
    def _usual(self) -> str:
        return f"A proof on {self._many(min(PROVE_IMAGES, self.left or self.draws))} decides it"

    def _many(self, number: int) -> str:
        return counted(number, "more repeat" if self.draws else "more image")


def outlook_of(joined: JoinedFinding, dataset: str, config: StressTestConfig, ledger: Ledger) -> Outlook:
    """Return what more images of a dataset could do for a finding.

    Args:
        joined: the finding with the pairs of its runs.
        dataset: the dataset to take images from, as it stands.
        config: the configuration of a run with pairs of the finding.
        ledger: has the dataset and the items of the runs.
    """
    proof, runs = joined.proof, [each.run for each in joined.runs]
    label = proof.finding.object_class
    try:
        sources = sources_of(proof, dataset, config, ledger)
    except UnknownDataset:
        return Outlook(label, dataset, None, 0, 0 if joined.is_decided else None)
    grouped = [in_group(each, config.groups.get(each.id, each.group)) for each in sources]
    left = left_of(proof, grouped, seed=config.request.seed, runs=runs, ledger=ledger)
    number = len(left.applicable) + len(left.unread)
    draws = draws_of(len(left.spent)) if must_draw(left, config) else 0
    fitting = len(left.applicable) + int(left.share * len(left.unread))
    if joined.is_decided:
        return Outlook(label, dataset, number, draws, 0)
    forecast, images = _forecast(joined, fitting or draws), fitting or draws
    # By its own test the run may not have told what the evidence of its pairs would.
    needed = 1 if forecast.decided and images else forecast.needed
    least = least_images(joined.evidence)
    return Outlook(label, dataset, number, draws, needed, least, forecast.chance(PROVE_IMAGES))


def hopeless_of(findings: Sequence[Finding], left: Mapping[int, int]) -> list[int]:
    """Return the numbers of the findings that the pairs left of their run's images would not decide.

    Args:
        findings: all findings of a run, with their pairs.
        left: the pairs that a proof could make of each open one, by number.
    """
    found = []
    for each in findings:
        test = each.confirmed
        if not left.get(each.number):
            continue
        change = Change(each.object_class, cast("EditType", each.edit_type), each.removed, each.added)
        # Without a test the pairs are the screen's, which chose it.
        evidence = join([[pair.loss for pair in each.pairs]] if test else [], len(findings))
        planned, kept = (test.planned, test.n_pairs) if test else (0, 0)
        supply = Supply(left[each.number], planned, kept, each.screened.loss)
        forecast = forecast_proof(evidence, supply, _generator(each.classifier, change))
        if is_hopeless(forecast.needed, forecast.chance(PROVE_IMAGES)):
            found.append(each.number)
    return found


def _forecast(joined: JoinedFinding, images: int) -> Forecast:
    """What so many images, or draws, would do for a finding."""
    finding = joined.proof.finding
    planned, kept = sum(each.planned for each in joined.runs), len(joined.pairs)
    generator = _generator(finding.classifier, change_of(joined.proof))
    return forecast_proof(joined.evidence, Supply(images, planned, kept, finding.screened.loss), generator)


def _generator(classifier: str, change: Change) -> Generator:
    # The seed is the finding's own, so that one history has one forecast.
    return np.random.default_rng(derive_seed(0, "forecast", figure_of((classifier, change))))
