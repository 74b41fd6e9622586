"""Processing of a survey: every classifier predicts one image."""

from __future__ import annotations

from counterpose_gateway.records.items import LeasedGroup, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.stores import Store
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.predictions import classify_images, prediction_pairs
from fakes.confidence_survey.contract import SurveyConfig, SurveyResult


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: Store) -> None:
    """Classify the leased image and record what was said."""
    config = SurveyConfig.model_validate(group.config)
    attempt = OpenItems(group, services, record, store)
    await finish_group(attempt, group, _work_through(attempt, config))


async def _work_through(attempt: OpenItems, config: SurveyConfig) -> None:
    images = [item.source_image for item in attempt.open]
    answers = await classify_images(attempt.calls, config.request.classifiers, images, config.classes)
    for item in attempt.open:
        async with attempt.fail_items_on_error([item]):
            said = prediction_pairs(answers, item.source_image, item.label, config.classes)
            await attempt.done(item, SurveyResult(image=item.source_image, predictions=said))
