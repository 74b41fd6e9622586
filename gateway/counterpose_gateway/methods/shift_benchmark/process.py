"""The shift benchmark: images of classes under shifts, measured by CLIP and predicted by classifiers."""

from __future__ import annotations

from collections.abc import Sequence

from counterpose_core.contract.shift_benchmarks import ImageResult, ShiftBenchmarkConfig
from counterpose_core.images.clip_metrics import Vectors, cosine
from counterpose_core.shift_benchmark.shifts import BASE
from counterpose_core.tasks import Truth, task_of
from counterpose_core.text.class_prompts import object_caption
from counterpose_gateway.methods.shift_benchmark.cells import GENERATED, Cell
from counterpose_gateway.methods.shift_benchmark.images import ImageDraft, Obtained, generate, prompts, search
from counterpose_gateway.records.items import LeasedGroup, Recorder
from counterpose_gateway.runs.attempt import OpenItems, finish_group
from counterpose_gateway.runs.calls import Calls, together
from counterpose_gateway.runs.drops import Drops
from counterpose_gateway.runs.stores import IndexStore
from counterpose_gateway.services.ports import Services
from counterpose_gateway.steps.clip import embed_images, embed_texts, require_one_space, unit_vector
from counterpose_gateway.steps.generation import drawable
from counterpose_gateway.steps.objectionable import drop_objectionable
from counterpose_gateway.steps.predictions import classify_images, scored_answers


async def process(group: LeasedGroup, *, services: Services, record: Recorder, store: IndexStore) -> None:
    """Process the leased images of one cell and record each exactly once.

    A bad image does not affect the others; a call that fails as a whole fails the images that needed it.
    Images that the thresholds would drop are recorded like the rest, so that thresholds can change later.

    Raises:
        LeaseLost: another worker owns the items now.
    """
    config = ShiftBenchmarkConfig.model_validate(group.config)
    attempt = OpenItems(group, services, record, store)
    await finish_group(attempt, group, _work_through(attempt, group, config, store))


async def _work_through(
    attempt: OpenItems, group: LeasedGroup, config: ShiftBenchmarkConfig, store: IndexStore
) -> None:
    cell, calls = Cell.of(group.item_group), attempt.calls
    if cell.image_source in GENERATED:
        asked = attempt.keep(drawable(prompts(config, cell, attempt.open), config.policy_words))
        images = attempt.keep(await generate(calls, config, asked))
    elif cell.image_source == "retrieval":
        images = attempt.keep(await search(calls, config, cell, attempt.open, store))
    else:
        images = [Obtained(item, item.source_image) for item in attempt.open]
    drafts = attempt.keep(await measure(calls, config, cell, images))
    threshold = config.objectionable if cell.image_source in GENERATED else None
    drafts = attempt.keep(await drop_objectionable(calls, drafts, threshold))
    for draft in attempt.keep(await predict(calls, config, drafts, spare=attempt.is_last)):
        await attempt.done(draft.item, draft.result)


async def predict(
    calls: Calls, config: ShiftBenchmarkConfig, drafts: Sequence[ImageDraft], *, spare: bool = False
) -> tuple[list[ImageDraft], Drops]:
    """Predict each image of a benchmark with every classifier of the run.

    A classifier that fails on an image is left out there, as long as another one answers; one that is down
    only with ``spare``.

    Raises:
        BackendError: a classifier is down.
    """
    predicted, drops = list[ImageDraft](), Drops()
    if not drafts:
        return predicted, drops
    images, classes = list(dict.fromkeys(draft.image for draft in drafts)), config.labels
    answers = await classify_images(calls, config.request.classifiers, images, classes, spare=spare)
    task = task_of(config.request.task, classes)
    for draft in drafts:
        with drops.on_error([draft.item]):
            pairs, missing = scored_answers(answers, draft.image, Truth(draft.item.label), task)
            update = {"predictions": pairs, "unanswered": missing}
            predicted.append(ImageDraft(draft.item, draft.result.model_copy(update=update)))
    return predicted, drops


async def measure(
    calls: Calls, config: ShiftBenchmarkConfig, cell: Cell, obtained: Sequence[Obtained]
) -> tuple[list[ImageDraft], Drops]:
    """Compare each image with its captions; an image that cannot be embedded is dropped.

    Raises:
        BackendError: CLIP failed as a whole, or its answer for a caption is not an embedding.
    """
    drafts, drops = list[ImageDraft](), Drops()
    if not obtained:
        return drafts, drops
    captions = _captions(config, cell)
    images, texts = await together(
        [
            embed_images(calls, [entry.image for entry in obtained]),
            embed_texts(calls, list(captions.values())),
        ]
    )
    wanted = dict(zip(captions, map(unit_vector, texts), strict=True))
    for entry, outcome in zip(obtained, images, strict=True):
        with drops.on_error([entry.item]):
            similarities = {field: _cosine(unit_vector(outcome), text) for field, text in wanted.items()}
            result = ImageResult(
                image=entry.image,
                image_source=cell.image_source,
                shift=cell.condition_name(config),
                prompt=entry.prompt,
                seed=entry.seed,
                token=entry.token,
                unsearched=entry.unsearched,
                alike=entry.alike,
                served=entry.served,
                cost=entry.cost,
                **similarities,
            )
            drafts.append(ImageDraft(entry.item, result))
    return drafts, drops


def _captions(config: ShiftBenchmarkConfig, cell: Cell) -> dict[str, str]:
    """The captions that an image is compared with, by the field that holds the similarity."""
    shift, name = config.shifts[cell.condition], cell.class_name(config)
    captions = {"object_similarity": object_caption(name, photo=shift.photo)}
    if cell.image_source == "real":
        # Styles are not photographs: their object threshold comes from a separate caption.
        captions["plain_similarity"] = object_caption(name, photo=False)
    if shift.name != BASE:
        captions["shift_similarity"] = shift.caption
    return captions


def _cosine(image: Vectors, text: Vectors) -> float:
    require_one_space(image, text)
    return float(cosine(image, text))
