"""Which words a user's own edit may have."""

from __future__ import annotations

from collections.abc import Sequence

from faultline_core.contract.interventions import Intervention
from faultline_core.texts import check_words

_MOST_CHARACTERS = 200


def check_interventions(interventions: Sequence[Intervention]) -> None:
    """Refuse words that hide letters or that a model could take for a part of its prompt's frame.

    Raises:
        InvalidRequest: they do; the pointer names the intervention and which of its words.
    """
    for index, one in enumerate(interventions):
        for name, text in (("removed", one.removed), ("added", one.added)):
            if text:
                check_words(text, field=f"interventions/{index}/{name}", most=_MOST_CHARACTERS)
