"""The stages of a child run that proves a finding: the captions of images that are left, then their pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from faultline_core.contract.confirmation import Wording
from faultline_core.contract.datasets import Source
from faultline_core.contract.proofs import Proof
from faultline_core.contract.runs import Item, Run
from faultline_core.contract.stress_tests import StressTestConfig
from faultline_gateway.methods.stress_test.division import MOST_FRESH, in_drawn_order
from faultline_gateway.methods.stress_test.interventions import reworded
from faultline_gateway.methods.stress_test.items import plan_captions
from faultline_gateway.methods.stress_test.observations import Observation, observe
from faultline_gateway.methods.stress_test.stages import pairs_on_captioned
from faultline_gateway.methods.stress_test.summary.joined_runs import change_of
from faultline_gateway.runs.items import PlannedItem
from faultline_gateway.runs.stages import StagePlan


@dataclass(frozen=True)
class LeftImages:
    """The images of a class that no run has made a pair of for the finding.

    ``applicable`` have a caption that the change applies to, ``unread`` have none yet, of the ``others`` the
    caption does not say what would be changed. Each keeps the drawn order. ``share`` of the images of this
    class can be expected to fit, by all captions so far.
    """

    applicable: Sequence[Source]
    unread: Sequence[Source]
    others: int
    share: float

    def to_read(self, images: int) -> list[Source]:
        """The images whose captions a run of so many pairs needs, those that surely fit first."""
        certain = list(self.applicable[:images])
        number = min(MOST_FRESH, math.ceil((images - len(certain)) / self.share))
        return certain + list(self.unread[:number])


def left_images(
    sources: Iterable[Source],
    proof: Proof,
    *,
    seed: int,
    used: Iterable[Observation],
    captions: Mapping[str, str],
) -> LeftImages:
    """Sort the images that are left for a finding by what their captions say.

    Args:
        sources: the images of the dataset.
        proof: the finding.
        seed: draws their order.
        used: the items of the runs so far; a caption alone uses up no image.
        captions: the captions that earlier runs wrote for images of the class, by source.
    """
    spent = {key for each in used if each.kind != "caption" for key in (each.source, each.image)}
    label = proof.finding.object_class
    left = [each for each in sources if each.label == label and not {each.id, each.image} & spent]
    applicable: list[Source] = []
    unread: list[Source] = []
    for source in in_drawn_order(left, seed):
        caption = source.caption or captions.get(source.id)
        if caption is None:
            unread.append(source)
        elif applies(proof.wordings, caption, label):
            applicable.append(source.model_copy(update={"caption": caption}))
    fitting = sum(applies(proof.wordings, caption, label) for caption in captions.values())
    share = (fitting + 1) / (len(captions) + 2)
    return LeftImages(applicable, unread, len(left) - len(applicable) - len(unread), share)


def applies(wordings: Iterable[Wording], caption: str, label: str) -> bool:
    """Whether a caption can be changed by one of the wordings."""
    return any(reworded(caption, each, label) is not None for each in wordings)


def first_stage(config: StressTestConfig, left: LeftImages, images: int) -> list[PlannedItem]:
    """Plan a caption for each image that may be needed; a known one costs no call of the captioner."""
    return plan_captions(config, left.to_read(images), first=0)


def next_stage(run: Run, config: StressTestConfig, results: Iterable[Item]) -> StagePlan | None:
    """Plan the pairs, on the images whose caption the change applies to; None after that."""
    proof = config.proof
    if proof is None or run.stage > 1:
        return None
    seen = observe(results)
    items = list(pairs_on_captioned(config, change_of(proof), proof.wordings, seen, proof.images))
    return StagePlan(items) if items else None


def config_of_child(
    parent: StressTestConfig,
    proof: Proof,
    *,
    dataset: str,
    dataset_digest: str,
    seed: int,
    versions: Mapping[str, str],
) -> StressTestConfig:
    """Return what the child depends on: all that its parent does, but one classifier and one change."""
    request = parent.request.model_copy(
        update={
            "dataset": dataset,
            "classifiers": [proof.finding.classifier],
            "edit_types": [proof.change.edit_type],
            "interventions": [],
            "lance_r_edits_per_image": 0,
            "limit": None,
            "confirm": False,
            "seed": seed,
        }
    )
    return parent.model_copy(
        update={
            "request": request,
            "versions": dict(versions),
            "dataset_digest": dataset_digest,
            "confirmation": None,
            "proof": proof,
        }
    )
