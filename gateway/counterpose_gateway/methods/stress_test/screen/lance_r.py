"""LANCE-R, the random baseline: a masked LM replaces one word of the caption (LANCE, section 4.1)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from counterpose_core.contract.base import MAX_BATCH, Outcome
from counterpose_core.contract.scorer import FilledMask, FillMaskItem, FillMaskRequest
from counterpose_core.errors import BadBackendOutput, InvalidRequest
from counterpose_core.stress_test.filters import names_label
from counterpose_core.text.caption_diff import Word, words
from counterpose_core.text.stop_words import STOP_WORDS
from counterpose_gateway.methods.stress_test.screen.proposals import Proposal
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.methods.stress_test.screen.text_filters import KeptEdit
from counterpose_gateway.records.items import LeasedItem
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.seeds import derive_seed

_MOST_WORDS = 8
"""Words of a caption that a slot tries; in real captions the first nearly always gives an edit."""

_PROPOSED = 4
"""New words requested per position: some are used by another slot, or name the class."""

_PART = re.compile(r"\S+")


@dataclass(frozen=True)
class Place:
    """A word that may be replaced; ``position`` counts whitespace-separated words, as the scorer does."""

    position: int
    start: int
    end: int
    word: str


@dataclass(frozen=True)
class _Try:
    """One word that a slot asks the masked LM about."""

    slot: int
    place: Place


def replaceable(caption: str, label: str) -> list[Place]:
    """The words of a caption that LANCE-R may replace: no stop words, no numbers, no word of the label.

    Replacing a word that names the class would change the true label, and the image be counted as the
    classifier's failure; the paper does not say what it does with these.
    """
    places: list[Place] = []
    for position, part in enumerate(_PART.finditer(caption)):
        inside = words(part.group())
        # In "red/blue" the scorer would mask only the first word, so such compounds are skipped.
        if len(inside) == 1 and _may_go(inside[0], label):
            start, end = part.start() + inside[0].start, part.start() + inside[0].end
            places.append(Place(position, start, end, inside[0].text))
    return places


def _may_go(word: Word, label: str) -> bool:
    letters = any(letter.isalpha() for letter in word.text)
    return letters and word.key not in STOP_WORDS and not names_label([word.text], [], label)


async def replace_random_words(
    calls: Calls, subject: Subject, items: Sequence[LeasedItem]
) -> tuple[list[KeptEdit], Drops]:
    """Fill each LANCE-R slot with a replaced word that no earlier slot of LANCE-R has.

    All slots of the plan are drawn, those of ``items`` or not, so that a slot tried again alone finds what it
    would have found among the others. LANCE's text filters do not apply, and its edits are not looked at: the
    baseline is drawn as if they did not exist. A slot for which no word gives anything is filtered as
    ``no-edit``.
    """
    kept, drops = list[KeptEdit](), Drops()
    if not items:
        return kept, drops
    # All slots fail together: a slot skipped over a failure would leave its words to the next.
    with drops.on_error(items):
        tries = _tries(subject)
        answers = dict(zip(tries, await _fill(calls, subject, tries), strict=True))
        chosen = _choose(subject, answers)
        for item in items:
            proposal = chosen.get(item.slot)
            if proposal is not None:
                kept.append(KeptEdit(item, proposal))
                continue
            tried = ", ".join(repr(each.place.word) for each in tries if each.slot == item.slot)
            detail = f"no new word for {tried}" if tried else "the caption has no word to replace"
            drops.filtered(item, "no-edit", detail)
    return kept, drops


def _tries(subject: Subject) -> list[_Try]:
    """For each planned slot its own random order of the words, cut off after the last useful try."""
    request, places = subject.config.request, replaceable(subject.caption, subject.label)
    tries: list[_Try] = []
    for slot in range(request.lance_r_edits_per_image):
        seed = derive_seed(request.seed, subject.source.item_group, "lance-r", slot)
        order = np.random.default_rng(seed).permutation(len(places)).tolist()
        tries += [_Try(slot, places[index]) for index in order[:_MOST_WORDS]]
    return tries


async def _fill(calls: Calls, subject: Subject, tries: Sequence[_Try]) -> list[Outcome[FilledMask]]:
    asked = [_ask(subject, attempted) for attempted in tries]
    fill, chunks = calls.services.scorer.fill_mask, range(0, len(asked), MAX_BATCH)
    requests = (FillMaskRequest(items=asked[start : start + MAX_BATCH]) for start in chunks)
    answered = await together(calls.ask("scorer", fill, each, model="masked-lm") for each in requests)
    return [outcome for outcomes in answered for outcome in outcomes]


def _ask(subject: Subject, attempted: _Try) -> FillMaskItem:
    names = (subject.source.item_group, "lance-r", attempted.slot, attempted.place.position)
    seed = derive_seed(subject.config.request.seed, *names)
    return FillMaskItem(text=subject.caption, position=attempted.place.position, n=_PROPOSED, seed=seed)


def _choose(subject: Subject, answers: Mapping[_Try, Outcome[FilledMask]]) -> dict[int, Proposal]:
    """Each slot's first new word that leaves the label alone and makes an edit no earlier slot has."""
    chosen: dict[int, Proposal] = {}
    taken: set[str] = set()
    for slot in range(subject.config.request.lance_r_edits_per_image):
        mine = [
            (attempted.place, outcome) for attempted, outcome in answers.items() if attempted.slot == slot
        ]
        edits = (edit for place, outcome in mine for edit in _edits(subject.caption, place, outcome))
        usable = (edit for edit in edits if not names_label(edit.removed, edit.added, subject.label))
        proposal = next((edit for edit in usable if edit.key not in taken), None)
        if proposal is not None:
            taken.add(proposal.key)
            chosen[slot] = proposal
    return chosen


def _edits(caption: str, place: Place, outcome: Outcome[FilledMask]) -> Iterator[Proposal]:
    """The captions with the new words at the place.

    Raises:
        BackendError: the scorer failed, or proposed something that is not a word.
    """
    try:
        proposed = outcome.unwrap().words
    except InvalidRequest:
        # The scorer may have stop words of its own: another word of the caption is tried.
        return
    for word in proposed:
        if [token.text for token in words(word)] != [word]:
            raise BadBackendOutput(f"the masked language model proposed {word!r}, which is not a word")
        edited = caption[: place.start] + word + caption[place.end :]
        proposal = Proposal.of(caption, edited)
        if not proposal.words.is_empty:
            yield proposal
