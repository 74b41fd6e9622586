"""How often the generator draws by itself what a bug says: captions of images that nothing has chosen."""

from __future__ import annotations

from collections.abc import Iterator

from counterpose_core.bug_hunt.descriptions import content_words
from counterpose_core.bug_hunt.rare import contribution
from counterpose_core.bug_hunt.sampling import FixedSampling
from counterpose_core.types import Estimate
from counterpose_gateway.methods.bug_hunt.hunt import Hunt
from counterpose_gateway.methods.bug_hunt.hunted_items import HuntedItem
from counterpose_gateway.methods.bug_hunt.samples import plan_captions
from counterpose_gateway.records.items import PlannedItem
from counterpose_gateway.steps.failed_samples import Counted


def plan_mentions(hunt: Hunt) -> Iterator[PlannedItem]:
    """Plan captions of held-out images of each label alone, in their order; failures and successes alike."""
    for label in hunt.request.labels:
        made = [item for item in hunt.record.of_label("held-out", label) if item.result is not None]
        yield from plan_captions(label, made[: hunt.request.mentions], phase="mentions")


def mentions_of(
    hunt: Hunt, label: str, words: str, described: Counted[HuntedItem]
) -> tuple[Estimate | None, Estimate | None]:
    """Return the share of a label's own captions that have a bug's words, and its part of all failures.

    Args:
        hunt: what is recorded.
        label: the label.
        words: the words of the bug beside the label.
        described: its held-out images.
    """
    wanted = content_words(words, label)
    places = {item.id: item.slot for item in hunt.record.of_label("held-out", label)}
    said = {
        places[item.instruction.sample]: wanted <= content_words(item.result.caption, label)
        for item in hunt.record.mentions
        if item.label == label and item.result is not None and item.result.caption
        and item.instruction is not None and item.instruction.sample in places
    }  # fmt: skip
    if not wanted or not said:
        return None, None
    share = FixedSampling(images=len(said)).rate(sum(said.values()), len(said))
    return share, contribution(said, dict(described.answers))
