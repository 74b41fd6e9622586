"""One request for learned tokens: each class a link further, all of them in shared calls."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import torch

from faultline_core.blobs import BlobStore, cache_key
from faultline_core.contract.base import Outcome, Problem
from faultline_core.contract.tokens import LearnedToken, LearnTokensRequest, LearnTokensResponse, TokenOffer
from faultline_core.editing.denoiser import Cancellation, CountingDenoiser
from faultline_core.editing.driver import Driver
from faultline_core.editing.lesson import Learned
from faultline_core.editing.textual_inversion import TextualInversionSettings, textual_inversion_walk
from faultline_core.errors import Cancelled, FaultlineError, NumericalFailure, ResourceExhausted
from faultline_core.types import Cost
from faultline_services.editor import token_bundle, token_checkpoint
from faultline_services.editor.buckets import Buckets
from faultline_services.editor.job import with_share_of_time
from faultline_services.editor.pipeline import Pipeline
from faultline_services.editor.token_checkpoint import CHECKPOINT_FORMAT, Checkpoint
from faultline_services.editor.token_enrolment import Enrolment
from faultline_services.editor.token_pupils import Pupil
from faultline_services.editor.training_latents import TrainingLatents

LINK_KIND = "token-link"


class TokenLearning:
    """The work of one request; what goes wrong with a class stays with it.

    Where each link ended is remembered: a call repeated because its answer was lost costs nothing.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: BlobStore,
        buckets: Buckets,
        request: LearnTokensRequest,
        cancelled: Cancellation,
    ) -> None:
        self._pipeline, self._store, self._buckets = pipeline, store, buckets
        self._request, self._preset, self._cancelled = request, request.preset, cancelled
        self._started = perf_counter()
        for prompt in self._preset.templates.prompts:
            pipeline.prompts.tokenize(prompt, self._preset.vectors)
        self._latents = TrainingLatents(pipeline, store, buckets)
        self._enrolment = Enrolment(pipeline, store, self._latents, request, cancelled)
        self._denoiser = CountingDenoiser(pipeline.denoiser, pipeline.flops.evaluation)
        self._vae = Cost()
        self._problems: dict[int, FaultlineError] = {}
        self._pupils: dict[int, Pupil] = {}
        self._ends: dict[int, Checkpoint] = {}
        self._costs: dict[int, Cost] = {}

    def answer(self) -> LearnTokensResponse:
        """Take every class its steps further, and store where each stands."""
        for index in range(len(self._request.items)):
            try:
                self._begin(index)
            except Cancelled:
                raise
            except FaultlineError as error:
                self._problems[index] = error
        ready = [index for index in self._pupils if index not in self._ends | self._problems]
        samples = len(ready) * self._preset.batch
        for index in self._buckets.of("learn").run_whole(ready, samples, self._learn) if ready else []:
            name = self._request.items[index].class_name
            self._problems[index] = ResourceExhausted(
                f"learning {name!r} alone needs more memory than there is"
            )
        outcomes = self._outcomes()
        return LearnTokensResponse(outcomes=outcomes, model=self._pipeline.identity, cost=self._cost())

    def _begin(self, index: int) -> None:
        """Enrol a class and make ready what it will be shown, unless it is known where this link ends."""
        pupil = self._enrolment.pupil(self._request.items[index])
        self._pupils[index], self._costs[index] = pupil, Cost()
        if pupil.until == pupil.checkpoint.state.step:
            self._ends[index] = pupil.checkpoint
        elif (known := self._recalled(pupil)) is not None:
            self._ends[index] = known
        else:
            wanted = [pupil.shown(sample) for sample in pupil.samples()]
            self._costs[index] = self._latents.prepare(wanted, self._cancelled)
            self._vae += self._costs[index]

    def _recalled(self, pupil: Pupil) -> Checkpoint | None:
        ref = self._store.recall(LINK_KIND, self._key(pupil))
        if ref is None:
            return None
        try:
            return token_checkpoint.unpack(self._store.get(ref), pupil.recipe, pupil.initial)
        except FaultlineError:
            # It may expire between the two look-ups: then it is made anew.
            return None

    def _key(self, pupil: Pupil) -> str:
        # By what links a class came there is no matter: a chain of them equals one.
        precision = self._pipeline.denoiser.precision
        return cache_key(
            format=CHECKPOINT_FORMAT, recipe=dict(pupil.recipe), until=pupil.until, precision=precision
        )

    def _learn(self, indices: Sequence[int], batch: int) -> None:
        """Train classes beside each other, ``batch`` samples a call."""
        preset, driver = self._preset, Driver(self._denoiser, batch=batch, cancelled=self._cancelled)
        settings = TextualInversionSettings(
            learning_rate=preset.learning_rate, weight_decay=preset.weight_decay, pin_norm=preset.pin_norm
        )
        pupils = [self._pupils[index] for index in indices]
        # Templates first: a sample names them by their places.
        own = dict.fromkeys(prompt for pupil in pupils for prompt in pupil.prompts())
        prompts = [*preset.templates.prompts, *own]
        numbers = {prompt: len(prompts) - len(own) + place for place, prompt in enumerate(own)}
        reader = self._pipeline.prompts.slot_reader([(prompt, preset.vectors) for prompt in prompts])
        lessons = [pupil.lesson(self._latents, numbers) for pupil in pupils]
        walk = textual_inversion_walk(lessons, reader, self._pipeline.schedule, settings, indices)
        for index, learned in zip(indices, driver.run(walk), strict=True):
            self._costs[index] += self._pipeline.flops.evaluation.priced(driver.cost(index))
            self._settle(index, learned)

    def _settle(self, index: int, learned: Learned) -> None:
        pupil = self._pupils[index]
        if learned.broken:
            self._problems[index] = self._failure(pupil, learned)
            return
        self._ends[index] = pupil.after(learned)
        ref = self._store.put(token_checkpoint.pack(self._ends[index], pupil.recipe))
        self._store.remember(LINK_KIND, self._key(pupil), ref)

    def _failure(self, pupil: Pupil, learned: Learned) -> NumericalFailure:
        if not bool(torch.isfinite(pupil.initial).all()):
            initialiser = pupil.recipe["initialiser"]
            return NumericalFailure(f"the text encoder's vectors of {initialiser!r} are not finite")
        precision = self._pipeline.denoiser.precision
        return NumericalFailure(
            f"what is learned of {pupil.item.class_name!r} is not finite in {precision} at step "
            f"{pupil.checkpoint.state.step + len(learned.losses)} of {self._preset.steps}"
        )

    def _outcomes(self) -> list[Outcome[LearnedToken]]:
        whole, found = self._cost(), []
        for index in range(len(self._request.items)):
            if index in self._problems:
                found.append(Outcome[LearnedToken](problem=Problem.of(self._problems[index])))
                continue
            cost = with_share_of_time(self._costs[index], whole, len(self._request.items))
            found.append(Outcome[LearnedToken](value=self._token(index, cost)))
        return found

    def _token(self, index: int, cost: Cost) -> LearnedToken:
        pupil, end = self._pupils[index], self._ends[index]
        offers = self._offers(pupil, end) if end.state.step == self._preset.steps else []
        return LearnedToken(
            class_name=pupil.item.class_name,
            steps=end.state.step,
            checkpoint=self._store.put(token_checkpoint.pack(end, pupil.recipe)),
            bundle=offers[-1].bundle if offers else None,
            offers=offers,
            losses=list(end.losses[pupil.checkpoint.state.step :]),
            images=len(pupil.pictures),
            dropped=list(end.dropped),
            cost=cost,
        )

    def _offers(self, pupil: Pupil, end: Checkpoint) -> list[TokenOffer]:
        bundles = {share: self._enrolment.bundle(pupil, end.state, share) for share in self._preset.shares}
        return [
            TokenOffer(share=share, bundle=self._store.put(token_bundle.pack(bundle)))
            for share, bundle in bundles.items()
        ]

    def _cost(self) -> Cost:
        """Everything the request took so far."""
        return self._denoiser.cost + self._vae + Cost(seconds=perf_counter() - self._started)
