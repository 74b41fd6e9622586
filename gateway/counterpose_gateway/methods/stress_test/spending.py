"""What a stress test would ask servers of others for at most."""

from __future__ import annotations

from counterpose_core.contract.spending import SpendingEstimate, Spent
from counterpose_core.served_calls import (
    answers,
    called_models,
    captions,
    checks_seed,
    judgements,
    suite_of_request,
    variations,
)
from counterpose_core.stress_test.item_counts import CONTROLS, edits_per_source
from counterpose_core.suite import Suite
from counterpose_core.suite_chats import CHAT
from counterpose_gateway.methods.stress_test.prepared import Prepared
from counterpose_gateway.methods.stress_test.screen.proposals import MOST_VARIANTS, PLACEBO_VARIANTS
from counterpose_gateway.records.spending import estimated


def most_spent(prepared: Prepared, suite: Suite, operations: int = 0) -> SpendingEstimate | None:
    """Return the most that a run costs in which nothing is tried again; None where nobody is called.

    Every image counts as one without a caption, and every edit as one that the filters let through.
    ``operations`` is the number of images that operations make.
    """
    division, request = prepared.division, prepared.config.request
    suite = suite_of_request(request, suite, None if prepared.config.edits_captions else ())
    if not (called := called_models(suite)):
        return None
    plan = division.plan
    confirmed = 0 if plan is None or plan.reason else plan.budget
    screened, items = len(division.screened), edits_per_source(request)
    spent = dict[str, Spent]()
    if "captioner" in called:
        spent["captioner"] = captions(suite, screened + len(division.fresh))
    if "perturber" in called:
        # A slot asks for several edits; an item of the confirmation has a placebo of its own at most.
        of_source = variations(suite, [MOST_VARIANTS] * request.max_edits_per_image + [PLACEBO_VARIANTS])
        of_source += Spent(calls=items)
        spent["perturber"] = of_source.times(screened) + variations(suite, [PLACEBO_VARIANTS]).times(
            confirmed
        )
    if "editor" in called:
        # A control is drawn twice, and so is a placebo whose words are those of the caption. Nobody knows
        # which control is the first of a replica, which is drawn once more.
        drawn = items + (len(CONTROLS) + checks_seed(prepared.config.preset) if items else 0)
        images = screened * drawn + 2 * confirmed
        spent["editor"] = Spent(calls=images, images=images)
    if "scorer" in called:
        # A confirmed change is judged beside its placebo.
        spent["scorer"] = judgements(suite, screened * items + 2 * confirmed)
    # Beside its edits each source; a confirmed change beside its placebo and its source.
    images = operations + (screened * (1 + items) + 3 * confirmed if items else 0)
    for name, part in suite.chat.items():
        spent[f"{CHAT}{name}"] = answers(part, images, len(prepared.config.classes))
    return estimated(spent, request.spending, suite)
