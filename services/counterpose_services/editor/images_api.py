"""The editor behind the images API: a server edits by an instruction, and draws from text."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
from PIL import Image

from counterpose_core.blobs import BlobStore, cache_key, digest
from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.editor import (
    GENERATED_KIND,
    EditedImage,
    EditItem,
    EditRequest,
    EditResponse,
    EditVariant,
    GeneratedImage,
    GenerateItem,
    GenerateRequest,
    GenerateResponse,
    GenerationPreset,
    ImageSafety,
)
from counterpose_core.contract.editor_backends import Capabilities
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.served_images import ServedImage
from counterpose_core.editing.denoiser import raise_if_cancelled
from counterpose_core.errors import BackendError, CounterposeError, InvalidRequest, RequestError
from counterpose_core.images.codecs import Pixels, decode_image, encode_png, encode_raw
from counterpose_core.images.masks import WHITE, editable
from counterpose_core.suite import EditorSuite
from counterpose_core.text.edit_instruction import TEMPLATES
from counterpose_core.transforms.arrays import Mask
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.editor.edit_backend import Cancelled, EditBackend
from counterpose_services.editor.latent_codec import psnr_db
from counterpose_services.openai_api.images import DrawnImage
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.outbound.calls import Form

KEPT_KIND = "images-api"
"""The kind under which the store keeps answers: a call that is repeated is not paid for twice."""
_SEED_DIGITS = 7
"""Hexadecimal, of 28 bits: some servers take no larger seed than 31 bits hold."""

ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")
Judge = Callable[[Sequence[Pixels]], list[ImageSafety]]


@dataclass(frozen=True)
class _Question:
    """What a server is asked for one image; ``key`` names all of it, and the draw where no seed does."""

    verb: str
    asked: Mapping[str, Any] | Form
    key: str
    seed: int | None
    image: str = ""


@dataclass(frozen=True)
class _Confined:
    """An image (H, W, 3), and the region (H, W) of it that an edit may change."""

    pixels: Pixels
    region: Mask

    @property
    def file(self) -> bytes:
        """The region as the images API has it: a PNG, transparent where the image may change."""
        alpha = np.where(self.region, 0, WHITE).astype(np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(np.dstack([self.pixels, alpha])).save(buffer, format="PNG")
        return buffer.getvalue()


@dataclass(frozen=True)
class _Task:
    """The questions of one item; the answer to the first is its image, and another tells the noise.

    ``source`` is the size of an edit's image, ``confined`` what its answer is put into. ``again`` is the
    first question once more, seed and all.
    """

    questions: Sequence[_Question]
    preset: ImagesApiPreset
    again: _Question | None = None
    source: tuple[int, int] | None = None
    confined: _Confined | None = None


@dataclass(frozen=True)
class _Made:
    """The answers to a task with their pixels, whether the first came again, and the seconds it took now."""

    answers: Sequence[tuple[DrawnImage, Pixels]]
    repeats: bool | None
    seconds: float


class ImagesApi(EditBackend):
    """Asks a server for each image, with one outcome each; ``judge`` is a safety checker's, if there is one.

    An edit of a caption to itself asks for the image unchanged, twice: the answers differ by the server's own
    noise. Of a server with seeds, one such item of this engine asks a third time, by the seed of the first
    question: that tells whether a seed repeats an image. An answer is kept under all that was asked, so that
    a repeated call does not ask again.
    """

    kind = "images-api"

    def __init__(
        self, server: OpenAIServer, suite: EditorSuite, store: BlobStore, *, judge: Judge | None = None
    ) -> None:
        self._server, self._suite, self._store, self._judge = server, suite, store, judge
        self._host = urlsplit(server.url).netloc
        # Nobody but the server knows its weights, or when they change.
        revision = digest(f"{server.url} {suite.model}".encode())
        self._identity = ModelIdentity(id=f"{suite.model} at {self._host}", revision=revision)
        # Taken by the call that asks by one seed twice.
        self._seed_check = threading.Lock()

    @property
    def identity(self) -> ModelIdentity:
        """The server's name of the model, and its host."""
        return self._identity

    @property
    def capabilities(self) -> Capabilities:
        """What the suite's presets say that the server can do."""
        return self._suite.capabilities

    def edit(self, request: EditRequest, *, cancelled: Cancelled) -> EditResponse:
        """Edit each image once, by the instruction that leads from its caption to the edited one."""
        preset, started = ImagesApiPreset.of(request.preset), time.monotonic()

        def finish(task: _Task, made: _Made) -> EditedImage:
            image, served = self._kept_size(task, made)
            ref = self._store.put(encode_raw(image))
            self._store.note_made([ref], of=task.questions[0].image)
            by = None if task.confined is None else preset.confined_by
            variants = [
                EditVariant(
                    strength=value, image=ref, safety=self._judged(image), served=served, confined_by=by
                )
                for value in request.values
            ]
            return EditedImage(variants=variants, cost=Cost(seconds=made.seconds))

        outcomes = self._settled(request.items, partial(self._edit_task, preset), finish, cancelled)
        return EditResponse(outcomes=outcomes, model=self.identity, cost=_since(started))

    def generate(self, request: GenerateRequest, *, cancelled: Cancelled) -> GenerateResponse:
        """Draw an image for each prompt.

        Raises:
            InvalidRequest: the server draws none, or the request has settings that it does not take.
        """
        presets = [self._suite.presets[self._suite.default_preset], *self._suite.presets.values()]
        preset = next((each for each in map(ImagesApiPreset.of, presets) if each.text_to_image), None)
        if preset is None:
            raise self._unable("draw")
        if request.model_dump(exclude={"items"}) != GenerationPreset().model_dump():
            raise InvalidRequest(
                f"{self.identity.id!r} takes no steps, guidance or scheduler; leave them out"
            )
        started = time.monotonic()

        def finish(task: _Task, made: _Made) -> GeneratedImage:
            image, served = self._kept_size(task, made)
            ref = self._store.put(encode_raw(image))
            self._store.remember(GENERATED_KIND, ref, ref)
            cost = Cost(seconds=made.seconds)
            return GeneratedImage(image=ref, cost=cost, safety=self._judged(image), served=served)

        outcomes = self._settled(request.items, partial(self._drawing_task, preset), finish, cancelled)
        return GenerateResponse(outcomes=outcomes, model=self.identity, cost=_since(started))

    def _settled(
        self,
        items: Sequence[ItemT],
        prepare: Callable[[ItemT], _Task],
        finish: Callable[[_Task, _Made], ValueT],
        cancelled: Cancelled,
    ) -> list[Outcome[ValueT]]:
        """Carry out the task of each item, all in one batch."""
        return settle(
            items, prepare=prepare, run=partial(self._made, cancelled), finish=finish, batch=len(items)
        )

    def _edit_task(self, preset: ImagesApiPreset, item: EditItem) -> _Task:
        pixels, template = decode_image(self._store.get(item.image)), TEMPLATES[preset.template]
        prompt = template.instruction(item.caption, item.edited_caption)
        size = _size(pixels)
        wanted = "x".join(map(str, size)) if preset.size == "source" else preset.size
        files = {"image": ("image.png", encode_png(pixels), "image/png")}
        confined, asked = self._confined(item, pixels), dict[str, object]()
        if confined is not None and preset.mask:
            files["mask"] = ("mask.png", confined.file, "image/png")
            asked["region"] = item.region
        unchanged = prompt == template.instruction(item.caption, item.caption)

        def question(number: int, **check: object) -> _Question:
            # Of the image and the draw alone: an edit and its control then have the same noise.
            seed = cache_key(seed=preset.seed, image=item.image, number=number)[:_SEED_DIGITS]
            sent = int(seed, 16) if preset.seeded else None
            fields = self._fields(preset, prompt, size=wanted, seed=sent)
            form = Form({name: str(value) for name, value in fields.items()}, files)
            inputs = {"template": template.texts, "image": item.image, "number": number, **asked, **check}
            return _Question("edits", form, self._key(preset, "edits", fields, **inputs), sent, item.image)

        questions = [question(number) for number in range(2 if unchanged else 1)]
        again = question(0, check="seed") if unchanged and preset.seeded else None
        return _Task(questions, preset, again, size, confined)

    def _confined(self, item: EditItem, pixels: Pixels) -> _Confined | None:
        if item.region is None:
            return None
        size = pixels.shape[0], pixels.shape[1]
        return _Confined(pixels, editable(self._store.get(item.region.mask), item.region.edits, size))

    def _drawing_task(self, preset: ImagesApiPreset, item: GenerateItem) -> _Task:
        if item.token is not None:
            raise self._unable("tokens")
        side = self._suite.resolution
        size = f"{side}x{side}" if preset.size in (None, "source") else preset.size
        sent = item.seed % 16**_SEED_DIGITS if preset.seeded else None
        fields = self._fields(preset, item.prompt, size=size, seed=sent)
        key = self._key(preset, "generations", fields, seed=item.seed)
        return _Task([_Question("generations", fields, key, sent)], preset)

    def _fields(
        self, preset: ImagesApiPreset, prompt: str, *, size: str | None, seed: int | None
    ) -> dict[str, Any]:
        form = "b64_json" if preset.send_response_format else None
        told = {"size": size, "seed": seed, "response_format": form}
        fields = {"model": self._suite.model, "prompt": prompt, "n": 1}
        return fields | {name: value for name, value in told.items() if value is not None}

    def _key(self, preset: ImagesApiPreset, verb: str, fields: Mapping[str, Any], **inputs: object) -> str:
        # Scaling comes after the answer, and the item has its region.
        asked = preset.model_copy(update={"resize": False, "region": None})
        return cache_key(server=self._server.url, verb=verb, fields=fields, preset=asked, **inputs)

    def _made(self, cancelled: Cancelled, tasks: Sequence[_Task]) -> Sequence[_Made | CounterposeError]:
        """Carry out all tasks at once; each has its own error, whatever becomes of the others."""

        def make(task: _Task) -> _Made | CounterposeError:
            started = time.monotonic()
            try:
                answers = [self._answer(question, cancelled) for question in task.questions]
                repeats = self._repeats(task, answers[0][1], cancelled)
            except (BackendError, RequestError) as error:
                return error
            return _Made(answers, repeats, time.monotonic() - started)

        return self._server.together(make, tasks)

    def _repeats(self, task: _Task, image: Pixels, cancelled: Cancelled) -> bool | None:
        """Return whether the seed of an image makes it again; None where that was not asked."""
        if task.again is None:
            return None
        made = self._kept(task.again)
        if made is None and self._seed_check.acquire(blocking=False):
            try:
                made = self._answer(task.again, cancelled)
            finally:
                if made is None:
                    self._seed_check.release()
        return None if made is None else np.array_equal(image, made[1])

    def _kept(self, question: _Question) -> tuple[DrawnImage, Pixels] | None:
        kept = self._store.find(KEPT_KIND, question.key, of=question.image)
        if kept is None:
            return None
        drawn = DrawnImage.read(kept)
        return drawn, drawn.pixels(self._server.name)

    def _answer(self, question: _Question, cancelled: Cancelled) -> tuple[DrawnImage, Pixels]:
        if (kept := self._kept(question)) is not None:
            return kept
        raise_if_cancelled(cancelled)
        drawn = DrawnImage.ask(self._server, question.verb, question.asked)
        # Before it is kept: what cannot be used is asked for again.
        pixels = drawn.pixels(self._server.name)
        self._store.keep(KEPT_KIND, question.key, drawn.written, of=question.image)
        return drawn, pixels

    def _kept_size(self, task: _Task, made: _Made) -> tuple[Pixels, ServedImage]:
        """Return the image in the size in which it is used, and where it comes from."""
        (drawn, image), *others = made.answers
        size, source = _size(image), task.source
        noise = [psnr_db(image, other) for _, other in others if other.shape == image.shape]
        drifts = source is not None and size != source
        put_back = None if task.preset.mask else task.confined
        resized = drifts and (task.preset.resize or put_back is not None)
        if resized and source is not None:
            image = np.asarray(Image.fromarray(image).resize(source, Image.Resampling.LANCZOS))
        if put_back is not None:
            image = np.where(put_back.region[..., None], image, put_back.pixels)
        served = ServedImage(
            server=self._host,
            model=self._suite.model,
            template=None if source is None else task.preset.template,
            seed=task.questions[0].seed,
            answer=digest(drawn.file),
            size=size,
            drift_from=source if drifts else None,
            resized=resized,
            seconds=drawn.seconds,
            usage=drawn.usage,
            seed_repeats=made.repeats,
            noise_db=noise[0] if noise else None,
        )
        return image, served

    def _judged(self, image: Pixels) -> ImageSafety | None:
        return None if self._judge is None else self._judge([image])[0]


def _size(pixels: Pixels) -> tuple[int, int]:
    height, width = pixels.shape[:2]
    return width, height


def _since(started: float) -> Cost:
    return Cost(seconds=time.monotonic() - started)
