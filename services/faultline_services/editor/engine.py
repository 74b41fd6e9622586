"""The editor: inversion, prompt-to-prompt edits and text-to-image on a Stable-Diffusion-class pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from faultline_core.blobs import BlobStore
from faultline_core.contract.base import ModelIdentity
from faultline_core.contract.editor import (
    GENERATED_KIND,
    EditedImage,
    EditItem,
    EditorPreset,
    EditRequest,
    EditResponse,
    EditVariant,
    GeneratedImage,
    GenerateRequest,
    GenerateResponse,
    Reconstruction,
    ReconstructRequest,
    ReconstructResponse,
)
from faultline_core.contract.tokens import LearnTokensRequest, LearnTokensResponse
from faultline_core.editing.denoiser import Cancellation, never
from faultline_core.editing.edit import edit
from faultline_core.editing.inversion import Inverted
from faultline_core.editing.sweep import latest_fork
from faultline_core.errors import FaultlineError, InvalidRequest, PromptTooLong, ResourceExhausted
from faultline_core.images import decode_image
from faultline_core.suite import EditorSuite
from faultline_core.types import BlobRef, Cost, Decoder
from faultline_services.editor.buckets import Buckets
from faultline_services.editor.edits import EditsOnTheWay, edit_settings, edit_tasks, source_of
from faultline_services.editor.forks import ForkCache
from faultline_services.editor.inversions import UNCONDITIONAL, InversionCache, Source
from faultline_services.editor.job import Company, Job
from faultline_services.editor.learned_words import LearnedWords
from faultline_services.editor.pictures import psnr_db
from faultline_services.editor.pipeline import Pipeline, load_pipeline
from faultline_services.editor.previewed import PreviewedLatents
from faultline_services.editor.sampling import preset_timetable
from faultline_services.editor.text_to_image import text_to_image
from faultline_services.editor.token_learning import TokenLearning
from faultline_services.memory import is_out_of_memory


class EditorEngine:
    """Makes pictures; deterministic, and independent of what shares a request.

    Items run in batches of the suite's size, or of what fits into memory, and each ends in an outcome of its
    own. ``cancelled`` is polled between diffusion steps and before each batch of decoding, and ends the call
    with Cancelled; inversions finished by then are kept. Evaluations of the items add up to those of the
    response, batches that did not fit apart; a call shared by items counts for each.
    """

    def __init__(self, pipeline: Pipeline, suite: EditorSuite, store: BlobStore) -> None:
        self.pipeline, self.store = pipeline, store
        self._buckets = Buckets(suite.batch)
        model: dict[str, object] = {
            "revision": pipeline.identity.revision,
            "resolution": suite.resolution,
        }
        precision, device = pipeline.denoiser.precision, pipeline.device
        self._cache = InversionCache(store, model=model, precision=precision, device=device)
        self._forks = ForkCache(store, model=model, precision=precision, device=device)
        self._previewed = PreviewedLatents(store, model=model, precision=precision, device=device)

    @classmethod
    def load(
        cls, suite: EditorSuite, root: Path, store: BlobStore, *, device: str = "cpu", dtype: str = "float32"
    ) -> EditorEngine:
        """Load the suite's pipeline folder, which lies under ``root``."""
        return cls(load_pipeline(suite, root, device=device, dtype=dtype), suite, store)

    @property
    def identity(self) -> ModelIdentity:
        """The pipeline's name and the digest of its files."""
        return self.pipeline.identity

    @property
    def max_tokens(self) -> int:
        """Most tokens of a prompt, marks of beginning and end included."""
        return self.pipeline.prompts.length

    def count_tokens(self, text: str) -> int:
        """Number of tokens of ``text`` on the same count as ``max_tokens``."""
        return self.pipeline.prompts.count_tokens(text)

    def reconstruct(
        self, request: ReconstructRequest, *, cancelled: Cancellation = never
    ) -> ReconstructResponse:
        """Invert each picture and bring it back without an edit."""
        with self._job() as job:
            sources = [source_of(item) for item in request.items]
            self._invert(job, dict(enumerate(sources)), request.preset, cancelled)
            for index, source in enumerate(sources):
                if index not in job.problems:
                    clean = job.inverted[source].reconstruction
                    job.settle(index, clean, job.claim_inversion_cost(source))

            def build(index: int, refs: list[BlobRef], cost: Cost) -> Reconstruction:
                made = decode_image(self.store.get(refs[0]))
                error = psnr_db(made, job.pictures[sources[index]])
                return Reconstruction(image=refs[0], psnr_db=error, cost=cost)

            outcomes = job.outcomes(len(sources), build, cancelled)
            return ReconstructResponse(outcomes=outcomes, model=self.identity, cost=job.cost())

    def edit(self, request: EditRequest, *, cancelled: Cancellation = never) -> EditResponse:
        """Edit each picture once for every value of the self_replace sweep that is asked for.

        A preview is answered in the name of the decoder that made it.

        Raises:
            InvalidRequest: previews are wanted of a suite without a decoder for them.
        """
        shown = self._shown_by(request.decoder)
        with self._job(request.decoder) as job:
            self._refuse_long(job, [item.edited_caption for item in request.items])
            self._decode_previewed(job, request)
            self._invert_and_edit(job, request, cancelled)
            done = job.problems.keys() | job.made.keys()
            good = [index for index in range(len(request.items)) if index not in done]

            def work(indices: Sequence[int], batch: int) -> None:
                chosen = {index: request.items[index] for index in indices}
                self._edit(job, chosen, request, cancelled, batch=batch)

            targets = len(good) * len(request.values)
            job.exhaust(self._buckets.of("edit").run_whole(good, targets, work) if good else [])
            if request.decoder == "preview":
                for index, made in job.made.items():
                    item = request.items[index]
                    self._previewed.keep(item, request.preset, request.values, made.latents)

            def build(_: int, refs: list[BlobRef], cost: Cost) -> EditedImage:
                pairs = zip(request.values, refs, strict=True)
                variants = [EditVariant(self_replace=value, image=ref) for value, ref in pairs]
                return EditedImage(variants=variants, cost=cost)

            outcomes = job.outcomes(len(request.items), build, cancelled)
            return EditResponse(outcomes=outcomes, model=shown, cost=job.cost())

    def generate(self, request: GenerateRequest, *, cancelled: Cancellation = never) -> GenerateResponse:
        """Make one picture for each prompt and seed, learned tokens in the slots of the prompts."""
        with self._job() as job:
            words = LearnedWords(self.pipeline, self.store)
            for index, item in enumerate(request.items):
                try:
                    words.check(item)
                except FaultlineError as error:
                    job.problems[index] = error
            good = [index for index in range(len(request.items)) if index not in job.problems]

            def work(indices: Sequence[int]) -> None:
                self._generate(job, request, words, indices, cancelled)

            # Some schedulers keep the outputs of several steps: what fits is another number for each.
            job.exhaust(self._buckets.of(f"generate {request.scheduler or 'plain'}").run(good, work))

            def build(_: int, refs: list[BlobRef], cost: Cost) -> GeneratedImage:
                # Whoever hands it out marks it otherwise than the edit of a photograph.
                self.store.remember(GENERATED_KIND, refs[0], refs[0])
                return GeneratedImage(image=refs[0], cost=cost)

            outcomes = job.outcomes(len(request.items), build, cancelled)
            return GenerateResponse(outcomes=outcomes, model=self.identity, cost=job.cost())

    def learn_tokens(
        self, request: LearnTokensRequest, *, cancelled: Cancellation = never
    ) -> LearnTokensResponse:
        """Take each class a link further in learning its token."""
        with _shortage_named():
            return TokenLearning(self.pipeline, self.store, self._buckets, request, cancelled).answer()

    @contextmanager
    def _job(self, decoder: Decoder = "full") -> Iterator[Job]:
        with _shortage_named():
            yield Job(self.pipeline, self.store, self._cache, self._buckets, decoder)

    def _shown_by(self, decoder: Decoder) -> ModelIdentity:
        if decoder == "full":
            return self.identity
        self.pipeline.codec.require_preview()
        return self.pipeline.preview or self.identity

    def _decode_previewed(self, job: Job, request: EditRequest) -> None:
        """Take up the latents of items that were previewed at all the values asked for: no evaluation."""
        for index, item in enumerate(request.items):
            latents = self._previewed.find(item, request.preset, request.values)
            if latents is not None and index not in job.problems:
                job.settle(index, latents, Cost())

    def _invert_and_edit(self, job: Job, request: EditRequest, cancelled: Cancellation) -> None:
        """Invert all sources; by null-text, edit those not inverted before on the way."""
        done = job.problems.keys() | job.made.keys()
        items = {index: item for index, item in enumerate(request.items) if index not in done}
        riding = EditsOnTheWay(self.pipeline, job.denoiser, request, items, cancelled)
        preset = request.preset
        company = riding.invert if preset.inversion == "null-text" else None
        sources = {index: source_of(item) for index, item in items.items()}
        self._invert(job, sources, preset, cancelled, company)
        for index, made in riding.made.items():
            if index in job.problems:
                continue
            job.settle(index, made.latents, made.cost + job.claim_inversion_cost(sources[index]))
            self._forks.keep(items[index], preset, [], made.forks)

    def _invert(
        self,
        job: Job,
        sources: Mapping[int, Source],
        preset: EditorPreset,
        cancelled: Cancellation,
        company: Company | None = None,
    ) -> None:
        if self.pipeline.denoiser.takes_guidance and preset.inversion in UNCONDITIONAL:
            # Its guidance mixes nothing in: an embedding for the other half would have no say.
            raise InvalidRequest(
                f"preset.inversion {preset.inversion!r} inverts for guidance between two evaluations, but "
                f"the loaded UNet takes guidance as an input (time_cond_proj_dim): use 'direct' or 'virtual'"
            )
        job.read(list(sources.values()))
        job.invert(preset, cancelled, company)
        for index, source in sources.items():
            if source in job.source_problems:
                job.problems[index] = job.source_problems[source]

    def _refuse_long(self, job: Job, prompts: Sequence[str]) -> None:
        for index, prompt in enumerate(prompts):
            try:
                self.pipeline.prompts.tokenize(prompt)
            except PromptTooLong as error:
                job.problems.setdefault(index, error)

    def _edit(
        self,
        job: Job,
        items: dict[int, EditItem],
        request: EditRequest,
        cancelled: Cancellation,
        *,
        batch: int,
    ) -> None:
        preset, table = request.preset, preset_timetable(self.pipeline.schedule, request.preset)
        # All edits of a picture read one trajectory; it is neither inverted nor stacked twice.
        sources = list(dict.fromkeys(source_of(item) for item in items.values()))
        forks = [self._forks.find(item, preset) for item in items.values()]
        starts = [latest_fork(known, table, request.values) for known in forks]
        tasks = edit_tasks(self.pipeline, list(items.values()), sources, preset)
        with self.pipeline.denoiser.guided(preset.guidance) as guidance:
            edited = edit(
                job.denoiser,
                table,
                Inverted.concatenate([job.inverted[source] for source in sources]),
                self.pipeline.prompts.encode([source.caption for source in sources]),
                [replace(task, start=start) for task, start in zip(tasks, starts, strict=True)],
                edit_settings(request, table, guidance, batch=batch),
                cancelled=cancelled,
            )
        for row, (index, item) in enumerate(items.items()):
            cost = edited.costs[row] + job.claim_inversion_cost(source_of(item))
            job.settle(index, edited.latents[row], cost)
            if index in job.made:
                self._forks.keep(item, preset, forks[row], edited.forks[row])

    def _generate(
        self,
        job: Job,
        request: GenerateRequest,
        words: LearnedWords,
        indices: Sequence[int],
        cancelled: Cancellation,
    ) -> None:
        chosen = [request.items[index] for index in indices]
        text = words.encode(chosen)
        latents, costs = text_to_image(self.pipeline, job.denoiser, chosen, text, request, cancelled)
        for row, index in enumerate(indices):
            job.settle(index, latents[row : row + 1], costs[row])


@contextmanager
def _shortage_named() -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        # What a smaller batch could not help: the request as a whole is too large.
        if not is_out_of_memory(error):
            raise
        raise ResourceExhausted(f"out of memory beside the batches: {error}") from error
