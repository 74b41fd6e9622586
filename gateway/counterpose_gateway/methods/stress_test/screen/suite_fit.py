"""Whether a run's images are such as its suite knows: measured of each source, and looked at early.

Images far from what the models were trained on end without a single kept edit, after an hour. So the first
sources decide whether the run goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from counterpose_core.commands import operations_command
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.captioner import Caption, CaptionItem, CaptionRequest
from counterpose_core.contract.editor import ReconstructItem, ReconstructRequest
from counterpose_core.contract.scorer import ScoreItem, ScoreRequest
from counterpose_core.contract.stress_tests import StressTestConfig
from counterpose_core.contract.suite_fit import MEASURES, KnownImages, SuiteFit, SuiteFitSummary
from counterpose_core.errors import CounterposeError, ImagesOutsideSuite, LeaseLost
from counterpose_core.statistics.bootstrap import proportion
from counterpose_core.stress_test.item_counts import edits_per_source
from counterpose_core.types import FINAL_ITEM_STATES
from counterpose_gateway.methods.stress_test.division import Division
from counterpose_gateway.methods.stress_test.screen.edits import Draft
from counterpose_gateway.methods.stress_test.screen.items import plan_items
from counterpose_gateway.methods.stress_test.screen.proposals import nats_per_token
from counterpose_gateway.methods.stress_test.screen.subject import Subject
from counterpose_gateway.records.items import LeasedGroup, PlannedItem
from counterpose_gateway.runs.calls import Calls, repeated
from counterpose_gateway.runs.method import UNDECIDED, Look
from counterpose_gateway.services.ports import Services

if TYPE_CHECKING:
    from counterpose_gateway.ledger import Ledger

LEAST_LOOKED_AT = 8
"""Sources after which a run is judged. If 1 % of the suite's own images lie outside, five of eight do in one
run of 10^8."""

MOST_LOOKED_AT = 12
"""Sources, in planned order, among which those are: some may fail."""

T = TypeVar("T")

_logger = logging.getLogger(__name__)


async def record_fit(
    calls: Calls, subject: Subject, nats: float | None, control: Sequence[Draft]
) -> list[Draft]:
    """Return the reconstruction with what it and the caption say of the source; nothing fails by it.

    ``nats``: the caption's, of each token; None where the user wrote it.
    """
    known = subject.config.known_images
    if known is None or not control:
        return list(control)
    [draft] = control
    # The user's words are not the captioner's, and neither its doubts nor CLIP's are about the image then.
    image_text = None if nats is None else await _image_text(calls, subject, draft.image)
    fit = known.fit(
        caption_nats=nats,
        image_text=image_text,
        psnr_db=draft.result.psnr_db if redraws_as_calibrated(subject.config, known) else None,
    )
    return [Draft(draft.item, draft.result.model_copy(update={"suite_fit": fit}))]


def redraws_as_calibrated(config: StressTestConfig, known: KnownImages) -> bool:
    """Whether a run redraws as the calibration did: two backends may have presets of one name."""
    backend = None if config.preset is None else config.preset.backend
    return (backend, config.request.preset) == (known.backend, known.preset)


async def _image_text(calls: Calls, subject: Subject, redrawn: str) -> float | None:
    asked = ScoreRequest(items=[_as_it_is(subject.image, redrawn, subject.caption)])
    try:
        outcomes = await repeated(lambda: calls.ask("scorer", calls.services.scorer.score, asked))
        return outcomes[0].unwrap().text_original
    except LeaseLost:
        raise
    except CounterposeError as error:
        source = subject.source.item_group
        _logger.warning("how source %s fits its caption is left out: %s", source, error.detail)
        return None


def _as_it_is(image: str, redrawn: str, caption: str) -> ScoreItem:
    return ScoreItem(
        original=image, edited=redrawn, caption=caption, edited_caption=caption, removed="", added=""
    )


def look(group: LeasedGroup, ledger: Ledger) -> Look:
    """Decide by a run's first sources whether it may go on, as soon as enough of them are known."""
    config = StressTestConfig.model_validate(group.config)
    if config.known_images is None or config.request.outside_suite == "continue" or config.proof is not None:
        return Look(decided=True)
    most = MOST_LOOKED_AT * edits_per_source(config.request)
    first = list(ledger.items.recorded(group.run_id, number=most))
    redrawn = [item for item in first if item.kind == "reconstruction"]
    told = summarize_fits(config.suite, (item.result for item in redrawn))
    seen = 0 if told is None else told.share.n
    if seen < LEAST_LOOKED_AT and not all(item.state in FINAL_ITEM_STATES for item in redrawn):
        return UNDECIDED
    if told is None or not told.is_outside:
        return Look(decided=True)
    return Look(decided=True, problem=ImagesOutsideSuite(f"{told} The run was stopped; {_go_on(config)}."))


async def look_ahead(config: StressTestConfig, division: Division, services: Services) -> None:
    """Measure the first images of a run that is not made, as its first items would be measured.

    An image on which a model fails counts as far as it was measured.

    Raises:
        ImagesOutsideSuite: a run would stop after them.
        BackendError: a service is down.
    """
    known = config.known_images
    if known is None or config.request.outside_suite == "continue":
        return
    planned = plan_items(config, division.screened, division.fresh)
    first = list(islice((item for item in planned if item.kind == "reconstruction"), LEAST_LOOKED_AT))
    own = [item for item in first if item.caption is None]
    written = await _captions(own, services)
    nats = {source: nats_per_token(caption) for source, caption in written.items()}
    texts = {item.item_group: item.caption or "" for item in first if item.caption is not None}
    texts |= {source: caption.text for source, caption in written.items() if caption.text.strip()}
    told = [item for item in first if item.item_group in texts]
    fitting = await _fitting([item for item in told if item.caption is None], texts, services)
    # As in a run, by the preset of the calibration alone.
    to_redraw = told if redraws_as_calibrated(config, known) else []
    redrawn = await _redrawn(to_redraw, texts, config, services)
    fits = [
        known.fit(
            caption_nats=nats.get(item.item_group),
            image_text=fitting.get(item.item_group),
            psnr_db=redrawn.get(item.item_group),
        )
        for item in first
    ]
    found = summarize_fits(config.suite, ({"suite_fit": fit.model_dump()} for fit in fits))
    if found is not None and found.is_outside:
        raise ImagesOutsideSuite(f"{found} A run would stop after its first images; {_go_on(config)}.")


async def _captions(items: Sequence[PlannedItem], services: Services) -> dict[str, Caption]:
    if not items:
        return {}
    asked = [CaptionItem(image=item.source_image, label=item.label) for item in items]
    answer = await services.captioner.caption(CaptionRequest(items=asked))
    return _by_source(items, answer.outcomes)


async def _fitting(
    items: Sequence[PlannedItem], texts: Mapping[str, str], services: Services
) -> dict[str, float]:
    """CLIP's cosine of each image with its caption."""
    if not items:
        return {}
    asked = [_as_it_is(item.source_image, item.source_image, texts[item.item_group]) for item in items]
    answer = await services.scorer.score(ScoreRequest(items=asked))
    return {source: each.text_original for source, each in _by_source(items, answer.outcomes).items()}


async def _redrawn(
    items: Sequence[PlannedItem], texts: Mapping[str, str], config: StressTestConfig, services: Services
) -> dict[str, float]:
    """The PSNR of each image's reconstruction in dB."""
    if not items or config.preset is None or not config.preset.capabilities.reconstruct:
        return {}
    asked = [ReconstructItem(image=item.source_image, caption=texts[item.item_group]) for item in items]
    answer = await services.editor.reconstruct(ReconstructRequest(items=asked, preset=config.preset))
    return {source: each.psnr_db for source, each in _by_source(items, answer.outcomes).items()}


def _by_source(items: Sequence[PlannedItem], outcomes: Sequence[Outcome[T]]) -> dict[str, T]:
    pairs = zip(items, outcomes, strict=True)
    return {item.item_group: each.value for item, each in pairs if each.value is not None}


def _go_on(config: StressTestConfig) -> str:
    return (
        f"test the images by operations, which need no generator: {operations_command(config.request)} ; or "
        "start it with outside_suite='continue' (--anyway) to go on all the same"
    )


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
