"""The editor: inversion, prompt-to-prompt edits and text-to-image on a Stable-Diffusion-class pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.editor import (
    GENERATED_KIND,
    EditedImage,
    EditItem,
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
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset
from counterpose_core.contract.tokens import LearnTokensRequest, LearnTokensResponse
from counterpose_core.editing.denoiser import Cancellation, never
from counterpose_core.editing.generate import starting_noise
from counterpose_core.errors import BackendUnavailable, PromptTooLong
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import EditorSuite
from counterpose_core.types import Cost, Decoder
from counterpose_services.batching.batch_size import BatchSizers
from counterpose_services.call_context import CALLER
from counterpose_services.editor.caches import ForkCache, InversionCache, PreviewedLatents
from counterpose_services.editor.call import EngineCall, shortage_named
from counterpose_services.editor.edit_backend import EditBackend
from counterpose_services.editor.edits.editing import JointNullTextEdits, edit_items
from counterpose_services.editor.edits.inversions import Inversions, invert_images
from counterpose_services.editor.edits.regions import Surroundings, latent_region
from counterpose_services.editor.edits.results import (
    ItemLatents,
    ItemResult,
    StoredImages,
    charge_once,
    out_of_memory,
    refusals,
    require_finite,
    store_images,
)
from counterpose_services.editor.latent_codec import psnr_db
from counterpose_services.editor.pipeline import Pipeline, load_pipeline
from counterpose_services.editor.safety import SafetyChecker
from counterpose_services.editor.step_engine.calibration import Calibration, calibrated, measured
from counterpose_services.editor.step_engine.capacity import RowLimits
from counterpose_services.editor.step_engine.step_engine import StepEngine
from counterpose_services.editor.step_engine.walk_under_way import Terms
from counterpose_services.editor.text_to_image import LearnedWords, text_to_image
from counterpose_services.editor.tokens.learning import TokenLearning
from counterpose_services.models.device import device_name


class EditorEngine(EditBackend):
    """Edits and generates images; deterministic, and independent of the other items of a request.

    Items run in batches of the suite's size, or of the size that fits in memory; each has its own outcome.
    ``cancelled`` is polled between diffusion steps and before each batch of decoding, and ends the call with
    Cancelled; finished inversions are kept. The items' evaluations add up to those of the response, except
    for batches that did not fit; a denoiser call shared by items counts for each.
    """

    kind = "prompt-to-prompt"

    def __init__(
        self, pipeline: Pipeline, suite: EditorSuite, store: BlobStore, safety: SafetyChecker | None = None
    ) -> None:
        self.pipeline, self.store, self.safety = pipeline, store, safety
        self._sizers, self._batch = BatchSizers(suite.batch), suite.batch
        self.steps = StepEngine(pipeline.denoiser, RowLimits.of_batch(suite.batch))
        model: dict[str, object] = {"revision": pipeline.identity.revision, "resolution": suite.resolution}
        precision, device = pipeline.denoiser.precision, pipeline.device
        self._inversions = InversionCache(store, model=model, precision=precision, device=device)
        self._forks = ForkCache(store, model=model, precision=precision, device=device)
        self._previewed = PreviewedLatents(store, model=model, precision=precision, device=device)

    @classmethod
    def load(
        cls,
        suite: EditorSuite,
        root: Path,
        store: BlobStore,
        *,
        device: str = "cpu",
        dtype: str = "float32",
        safety_checker: Path | None = None,
    ) -> EditorEngine:
        """Load the suite's pipeline from its folder under ``root``.

        Args:
            suite: names the folder, and gives resolution and batch size.
            root: the folder of all models.
            store: where images, inversions and tokens are read and written.
            device: the device of all networks, such as ``cuda:0``.
            dtype: the precision of the UNet.
            safety_checker: the folder of a safety checker, which then judges every image; None for none.
        """
        safety = None if safety_checker is None else SafetyChecker(safety_checker, device=device)
        return cls(load_pipeline(suite, root, device=device, dtype=dtype), suite, store, safety)

    def compile(self) -> None:
        """Compile the network for plain calls, and make the first of them: it takes about a minute.

        Raises:
            BackendUnavailable: this machine lacks what compiling needs.
        """
        self.pipeline.denoiser.compile()
        try:
            self._first_call()
        # The compiler's errors have no class in common: a missing compiler, an operator, a driver.
        except Exception as error:
            raise BackendUnavailable(
                f"the editor's network cannot be compiled here ({type(error).__name__}: {error}); unset "
                "COUNTERPOSE_EDITOR_COMPILE"
            ) from error

    def calibrate(self, folder: Path) -> None:
        """Let calls hold as many rows as this device is fastest with, at least those of the suite's batch.

        It is measured once, in some seconds, and kept in ``folder``.
        """
        pipeline = self.pipeline
        # Drawn: a card is faster on equal numbers than on those of real work.
        latents = starting_noise([0], pipeline.latent_shape).to(pipeline.device)

        def measure(key: str) -> Calibration:
            return measured(pipeline.denoiser, latents, pipeline.null[None], key)

        limits = calibrated(
            folder, RowLimits.of_batch(self._batch), measure,
            revision=pipeline.identity.revision, shape=list(pipeline.latent_shape), torch=torch.__version__,
            precision=pipeline.denoiser.precision, device=device_name(pipeline.device),
        )  # fmt: skip
        self.steps = StepEngine(pipeline.denoiser, limits)

    @torch.no_grad()
    def _first_call(self) -> None:
        pipeline = self.pipeline
        latents = torch.zeros(2, *pipeline.latent_shape, device=pipeline.device)
        pipeline.denoiser(latents, torch.zeros(2, device=pipeline.device), pipeline.null.expand(2, -1, -1))

    @property
    def identity(self) -> ModelIdentity:
        """The pipeline's name and the digest of its files."""
        return self.pipeline.identity

    @property
    def max_tokens(self) -> int:
        """The largest number of tokens of a prompt, including the start and end marks."""
        return self.pipeline.prompts.length

    def rows(self) -> tuple[int, int]:
        """Return how many rows the network's calls had so far, and how many they could have had."""
        return self.steps.counters.rows, self.steps.counters.offered

    def reconstruct(
        self, request: ReconstructRequest, *, cancelled: Cancellation = never
    ) -> ReconstructResponse:
        """Invert each image and reconstruct it without an edit."""
        with shortage_named():
            call = self._begin(cancelled)
            images = dict(enumerate(self.pipeline.captioned(item) for item in request.items))
            inversions = invert_images(
                call, self._inversions, PromptToPromptPreset.of(request.preset), images.values()
            )
            clean = {
                index: ItemLatents(inversions.inverted[image].reconstruction)
                for index, image in images.items()
                if image in inversions.inverted
            }
            results = inversions.failed(images) | charge_once(clean, images, inversions.costs)
            stored = store_images(call, results, "full", inversions.spent)

            def reconstruction(index: int, made: StoredImages) -> Reconstruction:
                [ref] = made.refs
                self.store.note_made(made.refs, of=request.items[index].image)
                error = psnr_db(decode_image(self.store.get(ref)), inversions.pixels[images[index]])
                return Reconstruction(image=ref, psnr_db=error, cost=made.cost)

            outcomes = stored.outcomes(reconstruction)
            return ReconstructResponse(outcomes=outcomes, model=self.identity, cost=call.cost(stored.spent))

    def edit(self, request: EditRequest, *, cancelled: Cancellation = never) -> EditResponse:
        """Edit each image once at each requested strength.

        For previews, the response names the decoder that made them.

        Raises:
            InvalidRequest: previews are requested, but the suite has no decoder for them.
        """
        shown = self._shown_by(request.decoder)
        with shortage_named():
            call, prompts = self._begin(cancelled), self.pipeline.prompts
            captions = [item.edited_caption for item in request.items]
            results = refusals(captions, prompts.tokenize, PromptTooLong)
            results |= refusals(request.items, self._require_region)
            results |= self._previewed_before(request, results)
            items = {index: item for index, item in enumerate(request.items) if index not in results}
            inversions = self._invert(call, request, items)
            results |= self._edit(call, request, items, inversions)
            if request.decoder == "preview":
                self._keep_previewed(request, results)
            around = self._surroundings(request, results, inversions)
            spent = inversions.spent + self.pipeline.flops.decoding(around.decoded, request.decoder)
            stored = store_images(call, results, request.decoder, spent, around.around)

            def edited(index: int, made: StoredImages) -> EditedImage:
                # Most values of a sweep are not chosen: no row will name their images.
                self.store.note_made(made.refs, of=request.items[index].image)
                told = zip(request.values, made.refs, made.safety, strict=True)
                by = None if request.items[index].region is None else request.preset.confined_by
                unchanged = around.refs.get(index)
                variants = [
                    EditVariant(strength=value, image=ref, safety=safety, confined_by=by, unchanged=unchanged)
                    for value, ref, safety in told
                ]
                return EditedImage(variants=variants, cost=made.cost)

            outcomes = stored.outcomes(edited)
            return EditResponse(outcomes=outcomes, model=shown, cost=call.cost(stored.spent))

    def generate(self, request: GenerateRequest, *, cancelled: Cancellation = never) -> GenerateResponse:
        """Generate one image for each prompt and seed, with learned tokens in the slots of the prompts."""
        with shortage_named():
            call, words = self._begin(cancelled), LearnedWords(self.pipeline, self.store)
            results = refusals(request.items, words.check)

            def work(indices: Sequence[int]) -> dict[int, ItemLatents]:
                items = [request.items[index] for index in indices]
                latents, costs = text_to_image(call, request, items, words.encode(items))
                rows = zip(indices, latents.split(1), costs, strict=True)
                return {index: ItemLatents(latents, cost) for index, latents, cost in rows}

            # Some schedulers keep the outputs of several steps, so each scheduler has its own batch size.
            sizer = self._sizers.of(f"generate {request.scheduler or 'plain'}")
            done = sizer.run([index for index in range(len(request.items)) if index not in results], work)
            results |= {index: made for part in done.results for index, made in part.items()}
            results |= {index: out_of_memory(index) for index in done.too_large}
            stored = store_images(call, results, "full", Cost())

            def generated(_: int, made: StoredImages) -> GeneratedImage:
                [ref] = made.refs
                # The gateway labels generated images differently from edits of photographs.
                self.store.remember(GENERATED_KIND, ref, ref)
                return GeneratedImage(image=ref, cost=made.cost, safety=made.safety[0])

            outcomes = stored.outcomes(generated)
            return GenerateResponse(outcomes=outcomes, model=self.identity, cost=call.cost(stored.spent))

    def learn_tokens(
        self, request: LearnTokensRequest, *, cancelled: Cancellation = never
    ) -> LearnTokensResponse:
        """Train the token of each class for one more link."""
        with shortage_named():
            return TokenLearning(self._begin(cancelled), request).answer()

    def _begin(self, cancelled: Cancellation) -> EngineCall:
        caller = CALLER.get()
        terms = Terms(share=caller.run, cancelled=cancelled, deadline=caller.deadline)
        return EngineCall(self.pipeline, self.store, self._sizers, self.steps, terms, self.safety)

    def _shown_by(self, decoder: Decoder) -> ModelIdentity:
        if decoder == "full":
            return self.identity
        self.pipeline.codec.require_preview()
        return self.pipeline.preview or self.identity

    def _previewed_before(
        self, request: EditRequest, refused: Mapping[int, ItemResult]
    ) -> dict[int, ItemResult]:
        """Return the latents of items that were previewed at all requested values, without evaluations.

        Around a region goes what its inversion returns to, so it must still be there.
        """
        preset = PromptToPromptPreset.of(request.preset)
        found = {
            index: self._previewed.find(item, preset, request.values)
            for index, item in enumerate(request.items)
            if index not in refused
            and (item.region is None or self._inversions.find(self.pipeline.captioned(item), preset))
        }
        return {index: ItemLatents(latents) for index, latents in found.items() if latents is not None}

    def _keep_previewed(self, request: EditRequest, results: Mapping[int, ItemResult]) -> None:
        preset = PromptToPromptPreset.of(request.preset)
        for index, made in require_finite(results, self.pipeline.denoiser.precision).items():
            if isinstance(made, ItemLatents):
                item = request.items[index]
                self._previewed.keep(item, preset, request.values, made.latents)

    def _require_region(self, item: EditItem) -> None:
        if item.region is not None:
            latent_region(self.pipeline, self.store, item.image, item.region)

    def _surroundings(
        self, request: EditRequest, results: Mapping[int, ItemResult], inversions: Inversions
    ) -> Surroundings:
        """Return the images that edits in a region are put into; of what was not edited, there is none."""
        preset, inverted = PromptToPromptPreset.of(request.preset), dict(inversions.inverted)
        items = dict[int, EditItem]()
        for index, item in enumerate(request.items):
            image = self.pipeline.captioned(item)
            if item.region is None or not isinstance(results[index], ItemLatents):
                continue
            found = inverted.get(image) or self._inversions.find(image, preset)
            if found is not None:
                items[index], inverted[image] = item, found
        return Surroundings.of(self.pipeline, self.store, items, inverted, request.decoder)

    def _invert(self, call: EngineCall, request: EditRequest, items: Mapping[int, EditItem]) -> Inversions:
        """Invert the images of items; null-text edits those that are not cached during their inversion."""
        preset = PromptToPromptPreset.of(request.preset)
        joint = JointNullTextEdits(call, request, items) if preset.inversion == "null-text" else None
        images = [self.pipeline.captioned(item) for item in items.values()]
        return invert_images(call, self._inversions, preset, images, joint)

    def _edit(
        self, call: EngineCall, request: EditRequest, items: Mapping[int, EditItem], inversions: Inversions
    ) -> dict[int, ItemResult]:
        """Edit the items that were not edited during an inversion; return the results of all."""
        images = {index: self.pipeline.captioned(item) for index, item in items.items()}
        failed = inversions.failed(images)
        made = {index: edit for index, edit in inversions.edits.items() if index not in failed}
        for index, edit in made.items():
            self._forks.keep(items[index], PromptToPromptPreset.of(request.preset), [], edit.forks)
        rest = {index: item for index, item in items.items() if index not in failed | made}
        edits, too_large = edit_items(call, request, rest, inversions.inverted, self._forks)
        results: dict[int, ItemResult] = {index: out_of_memory(index) for index in too_large}
        return failed | results | charge_once(made | edits, images, inversions.costs)
