"""The user's own edits: each intervention made in the caption of a source (LANCE, fig. 11)."""

from __future__ import annotations

from faultline_core.contract.interventions import Intervention
from faultline_core.filters import names_label
from faultline_core.interventions import intervene
from faultline_core.perturbations import difference
from faultline_gateway.work_items import LeasedItem
from faultline_gateway.workflows.attempt import Attempt
from faultline_gateway.workflows.proposals import LONGEST_CAPTION, Proposal
from faultline_gateway.workflows.text_filters import KeptEdit

NOT_APPLICABLE = "not-applicable"
"""The reason of an item whose caption has nothing that the intervention would change."""


async def make_chosen_edits(attempt: Attempt, source: LeasedItem, caption: str) -> list[KeptEdit]:
    """Make each open intervention in the caption.

    Its words are the user's choice, so no filter compares them: only an edit that names the class is
    refused, since the picture's true label would be another one.
    """
    kept: list[KeptEdit] = []
    for item in attempt.open:
        if item.kind != "intervention":
            continue
        chosen = attempt.config.request.interventions[item.slot]
        edited = intervene(caption, chosen.removed, chosen.added)
        if edited is None or len(edited) > LONGEST_CAPTION:
            await attempt.filtered(item, NOT_APPLICABLE, _why_not(caption, chosen, edited))
            continue
        proposal = Proposal(edited, difference(caption, edited))
        if names_label(proposal.removed, proposal.added, source.label):
            await attempt.filtered(item, "label-in-edit", f"{chosen.in_words()} names {source.label!r}")
            continue
        kept.append(KeptEdit(item, proposal))
    return kept


def _why_not(caption: str, chosen: Intervention, edited: str | None) -> str:
    if edited is not None:
        return f"the caption would be longer than {LONGEST_CAPTION} characters"
    if intervene(caption, chosen.removed, "something") is not None:
        return f"of the caption nothing would be left without {chosen.removed!r}"
    return f"the caption has no {chosen.removed!r}"
