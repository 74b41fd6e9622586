"""The caption and its proposed edits (LANCE, Algorithm 1, lines 7-10)."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from counterpose_core.contract.captioner import Caption, CaptionItem, CaptionRequest
from counterpose_core.contract.perturber import Perturbations, PerturbItem, PerturbRequest
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.errors import BadBackendOutput
from counterpose_core.text.caption_diff import Difference, Span, difference
from counterpose_core.types import EditType
from counterpose_gateway.methods.stress_test.screen.attempt import Attempt
from counterpose_gateway.methods.stress_test.screen.items import slots_per_type
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.seeds import derive_seed
from counterpose_gateway.services.ports import Services

_SPARE_VARIANTS = 7
"""Most subject edits a language model proposes swap the class itself and are dropped."""

_MOST_VARIANTS = 16
_PLACEBO_VARIANTS = 4
LONGEST_CAPTION = 4000
"""Characters, like the contract's texts; the captioner's own limit in tokens is far lower."""


@dataclass(frozen=True)
class Slot:
    """A slot of a source's plan and how many variants to ask for; ``edit_type`` None is the placebo."""

    edit_type: EditType | None
    number: int
    variants: int


@dataclass(frozen=True)
class Proposal:
    """A caption edit and its words, read off both captions rather than taken on trust."""

    edited_caption: str
    words: Difference

    @property
    def key(self) -> str:
        """A key that is equal for two proposals of the same edit."""
        # Ignores case and spacing: CLIP's tokenizer does too, so the images would be the same.
        return " ".join(self.edited_caption.casefold().split())

    @property
    def removed(self) -> list[str]:
        """Removed texts: the whole first, then its spans where there are several."""
        return _phrases(self.words.removed_text, self.words.removed)

    @property
    def added(self) -> list[str]:
        """Added texts, likewise."""
        return _phrases(self.words.added_text, self.words.added)


def _phrases(whole: str, spans: Sequence[Span]) -> list[str]:
    parts = [span.text for span in spans] if len(spans) > 1 else []
    return [whole, *parts] if whole else []


@dataclass(frozen=True)
class WrittenCaption:
    """A caption, and its log-likelihood in nats per token; None where the user wrote it."""

    text: str
    nats_per_token: float | None = None


async def write_caption(attempt: Attempt, source: LeasedItem, services: Services) -> WrittenCaption:
    """Return the user's caption of the source, or the captioner's.

    Raises:
        BadBackendOutput: the captioner returned an empty or implausible caption.
    """
    if source.caption is not None:
        return WrittenCaption(source.caption)
    request = CaptionRequest(items=[CaptionItem(image=source.source_image, label=source.label)])
    response = await attempt.call("captioner", services.captioner.caption, request)
    caption = attempt.outcomes("captioner", response)[0].unwrap()
    attempt.add_shared_cost(response.cost)
    text = caption.text.strip()
    if not text:
        raise BadBackendOutput("the captioner returned an empty caption")
    return WrittenCaption(_plausible("captioner", text), nats_per_token(caption))


def nats_per_token(caption: Caption) -> float | None:
    """Return the log-likelihood of a caption per token; None if the captioner does not tell it."""
    if caption.tokens <= 0 or not math.isfinite(caption.log_likelihood):
        return None
    return caption.log_likelihood / caption.tokens


async def draw_proposals(
    attempt: Attempt, source: LeasedItem, caption: str, services: Services
) -> dict[Slot, list[Proposal]]:
    """Ask for edits of the caption, with a separate seed for each planned slot, the placebo last.

    All slots of the plan are drawn, ours or not, so that a slot tried again alone finds what it
    would have found among the others.
    """
    items = [item for item in attempt.open if item.kind in ("edit", "placebo")]
    if not items:
        return {}
    slots = _planned_slots(attempt.config, source.item_group)
    if all(item.instruction is not None for item in items):
        # A confirmation proposes no edits: it has one placebo for each place, a draw's in a slot of its own.
        slots = [Slot(None, item.slot, _PLACEBO_VARIANTS) for item in items]
    request = PerturbRequest(items=[_ask(slot, source, caption, attempt.config) for slot in slots])
    drawn: dict[Slot, list[Proposal]] = {}
    async with attempt.fail_items_on_error(items):
        response = await attempt.call("perturber", services.perturber.perturb, request)
        outcomes = attempt.outcomes("perturber", response)
        for slot, outcome in zip(slots, outcomes, strict=True):
            async with attempt.fail_items_on_error(attempt.edit_items(slot.edit_type, slot.number)):
                drawn[slot] = _read(caption, outcome.unwrap(), placebo=slot.edit_type is None)
    return drawn


def _planned_slots(config: StressTestConfig, source_id: str) -> list[Slot]:
    edits = [
        Slot(edit_type, slot, min(_MOST_VARIANTS, number + _SPARE_VARIANTS))
        for edit_type, number in slots_per_type(config.request, source_id).items()
        for slot in range(number)
    ]
    return [*edits, Slot(None, 0, _PLACEBO_VARIANTS)]


def _ask(slot: Slot, source: LeasedItem, caption: str, config: StressTestConfig) -> PerturbItem:
    kind = slot.edit_type or "placebo"
    # A seed per slot: an additional slot changes no other slot's draw.
    seed = derive_seed(config.request.seed, source.item_group, kind, slot.number)
    return PerturbItem(caption=caption, perturbation_type=kind, n=slot.variants, seed=seed)


def _read(caption: str, perturbations: Perturbations, *, placebo: bool) -> list[Proposal]:
    texts = (_plausible("perturber", edit.edited_caption.strip()) for edit in perturbations.edits)
    proposals = [Proposal(text, difference(caption, text)) for text in texts if text]
    return [proposal for proposal in proposals if placebo or not proposal.words.is_empty]


def _plausible(service: str, text: str) -> str:
    # A runaway model writes without end or in control characters; no service's request takes the first and
    # PostgreSQL's JSON refuses NUL, so both would surface far from who is to blame.
    hidden = any(unicodedata.category(letter) == "Cc" and not letter.isspace() for letter in text)
    if hidden or len(text) > LONGEST_CAPTION:
        raise BadBackendOutput(f"the {service} returned {len(text)} characters, not a caption: {text[:40]!r}")
    return text
