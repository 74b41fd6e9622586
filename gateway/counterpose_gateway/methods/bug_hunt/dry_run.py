"""A bug hunt that is not made: refused as the hunt would be, and else estimated."""

from __future__ import annotations

from dataclasses import replace

from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate, BugHuntQuestion, UndrawnImages
from counterpose_core.contract.spending import Spent
from counterpose_core.served_calls import called_models, suite_of_request
from counterpose_gateway.methods.bug_hunt.estimate import estimate
from counterpose_gateway.methods.bug_hunt.method import BUG_HUNT
from counterpose_gateway.methods.bug_hunt.plan import plan, prepare
from counterpose_gateway.records.spending import estimated
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.plan_account import PlanAccount
from counterpose_gateway.runs.submission import allotment, without_functions
from counterpose_gateway.services.functions import with_functions
from counterpose_gateway.steps.classifiers import untried_classifiers


async def dry_run(create: BugHuntQuestion, context: RunContext) -> BugHuntEstimate:
    """Say what such a hunt would take and could find, as far as it could be made.

    One image of each label is drawn, as for a hunt, unless a server of others would be paid for it. Without a
    classifier, the budget alone is looked at, for one.

    Raises:
        BudgetSpent: what the hunt draws before it begins does not fit in its budget of spending.
        QuotaExceeded, UnknownModel, ...: as of `plan`.
    """
    asked, functions = without_functions(create, context)
    if not asked.classifiers:
        return await estimate(asked, context)
    account = PlanAccount(allotment(asked, BUG_HUNT.needs, context))
    context = replace(context, services=with_functions(context.services, functions))
    if "editor" not in called_models(context.suite):
        await plan(asked, context)
        return await estimate(asked, context)
    undrawn = await _undrawn(asked, account, context)
    return (await estimate(asked, context)).model_copy(update={"undrawn": undrawn})


async def _undrawn(asked: BugHuntQuestion, account: PlanAccount, context: RunContext) -> UndrawnImages:
    """Check what needs no image, and say which images a hunt would draw to check the rest."""
    ready, suite = await prepare(asked, context), context.suite
    untried = await untried_classifiers(
        asked.classifiers, ready.classes, context.services, label_map=asked.label_map
    )
    prompts = [each.asked.prompt for each in (*ready.of_labels, *ready.of_prompts)]
    spent = Spent(calls=len(prompts), images=len(prompts))
    account.require("editor", spent)
    tried = f", and whether {', '.join(untried)} can classify one" if untried else ""
    return UndrawnImages(
        prompts=prompts,
        why=f"so that it was not seen whether they can be drawn{tried}: the editor of the suite "
        f"{suite.name!r} asks a server, which would be paid for them; the hunt draws them first",
        spending=estimated({"editor": spent}, asked.spending, suite_of_request(asked, suite, BUG_HUNT.needs)),
    )
