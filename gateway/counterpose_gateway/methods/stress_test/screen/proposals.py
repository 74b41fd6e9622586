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
from counterpose_gateway.methods.stress_test.regions import is_confirming
from counterpose_gateway.methods.stress_test.screen.items import slots_per_type
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.seeds import derive_seed

_SPARE_VARIANTS = 7
"""Most subject edits a language model proposes swap the class itself and are dropped."""

MOST_VARIANTS = 16
PLACEBO_VARIANTS = 4
LONGEST_CAPTION = 4000
"""Characters, like the contract's texts; the captioner's own limit in tokens is far lower."""


@dataclass(frozen=True)
class Slot:
    """A slot of a source's plan and how many variants to ask for; ``edit_type`` None is the placebo."""

    edit_type: EditType | None
    number: int
    variants: int

    def among(self, items: Sequence[LeasedItem]) -> list[LeasedItem]:
        """Return its item, or nothing if another worker holds it."""
        wanted = ("placebo" if self.edit_type is None else "edit", self.edit_type, self.number)
        return [item for item in items if (item.kind, item.edit_type, item.slot) == wanted]


@dataclass(frozen=True)
class Proposal:
    """A caption edit and its words, read off both captions rather than taken on trust."""

    edited_caption: str
    words: Difference

    @classmethod
    def of(cls, caption: str, edited: str) -> Proposal:
        """Compare both captions."""
        return cls(edited, difference(caption, edited))

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


async def write_caption(calls: Calls, source: LeasedItem) -> WrittenCaption:
    """Return the user's caption of the source, or the captioner's.

    Raises:
        BadBackendOutput: the captioner returned an empty or implausible caption.
    """
    if source.caption is not None:
        return WrittenCaption(source.caption)
    request = CaptionRequest(items=[CaptionItem(image=source.source_image, label=source.label)])
    caption = (await calls.ask("captioner", calls.services.captioner.caption, request))[0].unwrap()
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
    calls: Calls, subject: Subject, items: Sequence[LeasedItem]
) -> tuple[dict[Slot, list[Proposal]], Drops]:
    """Ask for edits of the caption, with a separate seed for each planned slot, the placebo last.

    All slots of the plan are drawn, those of ``items`` or not, so that a slot tried again alone finds what it
    would have found among the others.
    """
    drawn, drops = dict[Slot, list[Proposal]](), Drops()
    if not items:
        return drawn, drops
    slots = _planned_slots(subject.config, subject.source.item_group)
    if all(map(is_confirming, items)):
        # A confirmation proposes no edits: it has one placebo for each place, a draw's in a slot of its own.
        slots = [Slot(None, item.slot, PLACEBO_VARIANTS) for item in items]
    request = PerturbRequest(items=[_ask(slot, subject) for slot in slots])
    with drops.on_error(items):
        perturb = calls.services.perturber.perturb
        outcomes = await calls.ask("perturber", perturb, request, is_costed=False)
        for slot, outcome in zip(slots, outcomes, strict=True):
            with drops.on_error(slot.among(items)):
                drawn[slot] = _read(subject.caption, outcome.unwrap(), placebo=slot.edit_type is None)
    return drawn, drops


def _planned_slots(config: StressTestConfig, source_id: str) -> list[Slot]:
    edits = [
        Slot(edit_type, slot, min(MOST_VARIANTS, number + _SPARE_VARIANTS))
        for edit_type, number in slots_per_type(config.request, source_id).items()
        for slot in range(number)
    ]
    return [*edits, Slot(None, 0, PLACEBO_VARIANTS)]


def _ask(slot: Slot, subject: Subject) -> PerturbItem:
    kind = slot.edit_type or "placebo"
    # A seed per slot: an additional slot changes no other slot's draw.
    seed = derive_seed(subject.config.request.seed, subject.source.item_group, kind, slot.number)
    return PerturbItem(caption=subject.caption, perturbation_type=kind, n=slot.variants, seed=seed)


def _read(caption: str, perturbations: Perturbations, *, placebo: bool) -> list[Proposal]:
    texts = (_plausible("perturber", edit.edited_caption.strip()) for edit in perturbations.edits)
    proposals = [Proposal.of(caption, text) for text in texts if text]
    return [proposal for proposal in proposals if placebo or not proposal.words.is_empty]


def _plausible(service: str, text: str) -> str:
    # A runaway model writes without end or in control characters; no service's request takes the first and
    # PostgreSQL's JSON refuses NUL, so both would surface far from who is to blame.
    hidden = any(unicodedata.category(letter) == "Cc" and not letter.isspace() for letter in text)
    if hidden or len(text) > LONGEST_CAPTION:
        raise BadBackendOutput(f"the {service} returned {len(text)} characters, not a caption: {text[:40]!r}")
    return text
