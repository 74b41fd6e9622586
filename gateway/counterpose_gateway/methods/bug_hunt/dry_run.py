"""A bug hunt that is not made: refused as the hunt would be, and else estimated."""

from __future__ import annotations

from dataclasses import replace

from counterpose_core.contract.bug_hunt_estimates import BugHuntEstimate, BugHuntQuestion
from counterpose_core.errors import InvalidRequest
from counterpose_core.served_calls import called_models
from counterpose_gateway.methods.bug_hunt.estimate import estimate
from counterpose_gateway.methods.bug_hunt.plan import plan
from counterpose_gateway.runs.context import RunContext
from counterpose_gateway.runs.submission import without_functions
from counterpose_gateway.services.functions import with_functions


async def dry_run(create: BugHuntQuestion, context: RunContext) -> BugHuntEstimate:
    """Say what such a hunt would take and could find, as far as it could be made.

    One image of each label is drawn, as for a hunt. Without a classifier, the budget alone is looked at, for
    one.

    Raises:
        InvalidRequest: the suite's editor asks a server of others, which would be paid for images of no run.
        QuotaExceeded, UnknownModel, ...: as of `plan`.
    """
    asked, functions = without_functions(create, context)
    if asked.classifiers:
        _require_free_draws(context)
        await plan(asked, replace(context, services=with_functions(context.services, functions)))
    return await estimate(asked, context)


def _require_free_draws(context: RunContext) -> None:
    # Neither an account nor a quota counts what is drawn for no run.
    if "editor" in called_models(context.suite):
        raise InvalidRequest(
            f"the editor of the suite {context.suite.name!r} asks a server, which would be paid for the "
            "images that an estimate draws; leave out the classifiers, and the budget alone is estimated",
            pointer="/classifiers",
        )
