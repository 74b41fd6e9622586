"""The filters that choose which caption edits are made into images (LANCE, Algorithm 1, line 11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from counterpose_core.contract.base import Outcome
from counterpose_core.contract.scorer import Embedding, EmbedTextsRequest
from counterpose_core.contract.stress_test_thresholds import TextScores, WordSimilarities
from counterpose_core.errors import BadBackendOutput, NumericalFailure
from counterpose_core.images.clip_metrics import Vectors, unit
from counterpose_core.stress_test.filters import TextVerdict, names_label, text_filter
from counterpose_core.stress_test.subjective import subjective_word
from counterpose_core.text.word_policy import policy_of
from counterpose_gateway.methods.stress_test.screen.proposals import Proposal, Slot
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.drops import Drops

DUPLICATE = "duplicate-edit"
"""The reason of a slot whose proposals pass but were taken by earlier slots."""

_MOST_TEXTS = 256

Embedded = Mapping[str, Outcome[Embedding]]


@dataclass(frozen=True)
class KeptEdit:
    """A proposal that passed the text filters, its item, and what the filters measured of its words."""

    item: LeasedItem
    proposal: Proposal
    text: TextScores | None = None


async def keep_edits(
    calls: Calls, subject: Subject, drawn: Mapping[Slot, Sequence[Proposal]], items: Sequence[LeasedItem]
) -> tuple[list[KeptEdit], Drops]:
    """Fill the slot of each item with its first proposal that passes and that no earlier slot has taken.

    An empty slot is filtered with its first proposal's reason, or with ``no-edit`` without a proposal.
    """
    kept, drops, taken = list[KeptEdit](), Drops(), set[str]()
    embedded: Embedded = {}
    with drops.on_error([item for item in items if item.kind == "edit"]):
        if subject.config.has_sentences:
            embedded = await _embed(calls, subject.label, drawn)
    # In the order of the plan: an earlier slot keeps its edit when a later one is retried.
    for slot, proposals in drawn.items():
        own = slot.among(items)
        with drops.on_error(own):
            usable, verdicts = _first_usable(slot, proposals, subject, embedded, taken)
            if usable is None:
                _drop(drops, own, [verdict.reason or DUPLICATE for verdict in verdicts])
                continue
            taken.add(usable.key)
            scores = None if slot.edit_type is None else _scores(verdicts)
            kept += [KeptEdit(item, usable, scores) for item in own]
    return kept, drops


async def _embed(calls: Calls, label: str, drawn: Mapping[Slot, Sequence[Proposal]]) -> Embedded:
    # Placebos are not embedded: they keep the meaning by design.
    edits = [edit for slot, proposals in drawn.items() if slot.edit_type is not None for edit in proposals]
    # Each text once: many proposals of a source share their words.
    texts = dict.fromkeys([label, *(text for edit in edits for text in (*edit.removed, *edit.added))])
    if not edits:
        return {}
    chunks = [list(texts)[start : start + _MOST_TEXTS] for start in range(0, len(texts), _MOST_TEXTS)]
    embedded: dict[str, Outcome[Embedding]] = {}
    for answer in await together(_embed_chunk(calls, chunk) for chunk in chunks):
        embedded |= answer
    return embedded


async def _embed_chunk(calls: Calls, texts: list[str]) -> dict[str, Outcome[Embedding]]:
    request = EmbedTextsRequest(texts=texts, encoder="sentence")
    outcomes = await calls.ask("scorer", calls.services.scorer.embed_texts, request, model="sentence")
    lengths = {len(outcome.value.vector) for outcome in outcomes if outcome.value is not None}
    if len(lengths) > 1:
        raise BadBackendOutput(f"the sentence encoder returned vectors of lengths {sorted(lengths)}")
    return dict(zip(texts, outcomes, strict=True))


def _first_usable(
    slot: Slot, proposals: Sequence[Proposal], subject: Subject, embedded: Embedded, taken: set[str]
) -> tuple[Proposal | None, list[TextVerdict]]:
    """The first proposal that passes and is free, and the verdicts on those up to it."""
    verdicts: list[TextVerdict] = []
    for proposal in proposals:
        verdicts.append(_judge(slot, proposal, subject, embedded))
        if verdicts[-1].reason is None and proposal.key not in taken:
            return proposal, verdicts
    return None, verdicts


def _scores(verdicts: Sequence[TextVerdict]) -> TextScores:
    """What was measured of the last, and of those before it that thresholds dropped."""
    measured = [
        WordSimilarities(class_similarity=each.class_similarity, word_similarity=each.word_similarity)
        for each in verdicts
        if each.reason is not None and each.is_measured
    ]
    last = verdicts[-1]
    return TextScores(
        class_similarity=last.class_similarity, word_similarity=last.word_similarity, passed_over=measured
    )


def _judge(slot: Slot, proposal: Proposal, subject: Subject, embedded: Embedded) -> TextVerdict:
    """Name the filter that a proposal fails; a placebo keeps its meaning, so no filter compares its words.

    Raises:
        BackendError: the sentence encoder did not embed the words.
    """
    config, label = subject.config, subject.label
    # Before any embedding: an edit that names the class fails, however distant its words are.
    if names_label(proposal.removed, proposal.added, label):
        return TextVerdict("label-in-edit")
    if policy_of(tuple(config.policy_words)).found(proposal.edited_caption) is not None:
        return TextVerdict("policy")
    refused = config.request.refused_words
    if subjective_word(proposal.added, proposal.removed, proposal.edited_caption, refused) is not None:
        return TextVerdict("subjective")
    if slot.edit_type is None or not config.has_sentences:
        return TextVerdict(None)
    return text_filter(
        label=_vector(label, embedded),
        removed=[_vector(text, embedded) for text in proposal.removed],
        added=[_vector(text, embedded) for text in proposal.added],
        class_epsilon=config.text.class_similarity,
        word_epsilon=config.text.word_similarity,
    )


def drop_refused(subject: Subject, edits: Sequence[KeptEdit]) -> tuple[list[KeptEdit], Drops]:
    """Filter edits, whoever wrote them, whose caption has a word that the content policy refuses."""
    policy, kept, drops = policy_of(tuple(subject.config.policy_words)), list[KeptEdit](), Drops()
    for edit in edits:
        phrase = policy.found(edit.proposal.edited_caption)
        if phrase is None:
            kept.append(edit)
        else:
            drops.filtered(edit.item, "policy", f"the content policy refuses {phrase!r}")
    return kept, drops


def _vector(text: str, embedded: Embedded) -> Vectors:
    if text not in embedded:
        raise BadBackendOutput(f"the sentence encoder returned no embedding of {text!r}")
    try:
        return unit(embedded[text].unwrap().vector)
    except NumericalFailure as error:
        # NaN, infinity or zeros come from the service, not from our arithmetic: the call may be retried.
        raise BadBackendOutput(f"the sentence encoder's embedding of {text!r}: {error.detail}") from error


def _drop(drops: Drops, items: Sequence[LeasedItem], reasons: Sequence[str]) -> None:
    counted = [f"{number} {reason}" for reason, number in Counter(reasons).items()]
    detail = f"{len(reasons)} proposals failed: {', '.join(counted)}" if reasons else "nothing was proposed"
    for item in items:
        drops.filtered(item, reasons[0] if reasons else "no-edit", detail)
