"""Whether a run's images are such as its suite knows: measured of each source, and looked at early.

Images far from what the models were trained on end without a single kept edit, after an hour. So the first
sources decide whether the run goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from counterpose_core.contract.scorer import ScoreItem, ScoreRequest
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.suite_fit import MEASURES, SuiteFit, SuiteFitSummary
from counterpose_core.errors import CounterposeError, ImagesOutsideSuite, LeaseLost
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.types import FINAL_ITEM_STATES
from counterpose_gateway.methods.stress_test.attempt import Attempt
from counterpose_gateway.methods.stress_test.edits import Draft
from counterpose_gateway.methods.stress_test.items import items_per_source
from counterpose_gateway.methods.stress_test.proposals import WrittenCaption
from counterpose_gateway.runs.attempt import repeated
from counterpose_gateway.runs.items import LeasedGroup, LeasedItem
from counterpose_gateway.runs.method import UNDECIDED, Look
from counterpose_gateway.runs.recorded_items import RecordedItem
from counterpose_gateway.services.ports import Services

LEAST_LOOKED_AT = 8
"""Sources after which a run is judged. If 1 % of the suite's own images lie outside, five of eight do in one
run of 10^8."""

MOST_LOOKED_AT = 12
"""Sources, in planned order, among which those are: some may fail."""

_logger = logging.getLogger(__name__)


async def record_fit(
    attempt: Attempt,
    source: LeasedItem,
    caption: WrittenCaption,
    control: Sequence[Draft],
    services: Services,
) -> list[Draft]:
    """Return the reconstruction with what it and the caption say of the source; nothing fails by it."""
    known = attempt.config.known_images
    if known is None or not control:
        return list(control)
    [draft] = control
    image_text: float | None = None
    # The user's words are not the captioner's, and neither its doubts nor CLIP's are about the image then.
    if caption.nats_per_token is not None:
        image_text = await _image_text(attempt, source, caption.text, draft.image, services)
    is_default = attempt.config.request.preset == known.preset
    fit = known.fit(
        caption_nats=caption.nats_per_token,
        image_text=image_text,
        psnr_db=draft.result.psnr_db if is_default else None,
    )
    return [Draft(draft.item, draft.result.model_copy(update={"suite_fit": fit}))]


async def _image_text(
    attempt: Attempt, source: LeasedItem, caption: str, redrawn: str, services: Services
) -> float | None:
    item = ScoreItem(
        original=source.source_image,
        edited=redrawn,
        caption=caption,
        edited_caption=caption,
        removed="",
        added="",
    )
    try:
        asked = ScoreRequest(items=[item])
        response = await repeated(lambda: attempt.call("scorer", services.scorer.score, asked))
        attempt.add_shared_cost(response.cost)
        return attempt.outcomes("scorer", response)[0].unwrap().text_original
    except LeaseLost:
        raise
    except CounterposeError as error:
        _logger.warning("how source %s fits its caption is left out: %s", source.item_group, error.detail)
        return None


class FirstItems(Protocol):
    """The part of the ledger that a look reads."""

    def recorded_items(
        self, run_id: str, *, first: int = 0, number: int | None = None
    ) -> Iterator[RecordedItem]:
        """Yield items of a run in planned order, as documents."""
        ...


def look(group: LeasedGroup, ledger: FirstItems) -> Look:
    """Decide by a run's first sources whether it may go on, as soon as enough of them are known."""
    config = StressTestConfig.model_validate(group.config)
    if config.known_images is None or config.request.outside_suite == "continue" or config.proof is not None:
        return Look(decided=True)
    most = MOST_LOOKED_AT * items_per_source(config.request)
    first = list(ledger.recorded_items(group.run_id, number=most))
    redrawn = [item for item in first if item.kind == "reconstruction"]
    told = summarize_fits(config.suite, (item.result for item in redrawn))
    seen = 0 if told is None else told.share.n
    if seen < LEAST_LOOKED_AT and not all(item.state in FINAL_ITEM_STATES for item in redrawn):
        return UNDECIDED
    if told is None or not told.is_outside:
        return Look(decided=True)
    return Look(decided=True, problem=ImagesOutsideSuite(f"{told} The run was stopped; {GO_ON}."))


GO_ON = "start it with outside_suite='continue' (--anyway) to go on all the same"


def summarize_fits(suite: str, results: Iterable[Mapping[str, Any] | None]) -> SuiteFitSummary | None:
    """Sum up the recorded fits of some results; None without any."""
    documents = (result.get("suite_fit") for result in results if result is not None)
    fits = [SuiteFit.model_validate(each) for each in documents if each is not None]
    if not fits:
        return None
    return SuiteFitSummary(
        suite=suite,
        outside=sum(bool(fit.outside) for fit in fits),
        share=proportion(sum(bool(fit.outside) for fit in fits), len(fits)),
        by={name: sum(name in fit.outside for fit in fits) for name in MEASURES},
    )
