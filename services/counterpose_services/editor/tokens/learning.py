"""One request for learned tokens: every class is trained one link further, all in shared denoiser calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from counterpose_core.blobs import cache_key
from counterpose_core.contract.base import Outcome
from counterpose_core.contract.tokens import (
    OWN_PROMPTS,
    LearnedToken,
    LearnTokensRequest,
    LearnTokensResponse,
    TokenDescription,
    TokenOffer,
)
from counterpose_core.editing.textual_inversion import (
    TextualInversionSettings,
    pinned,
    textual_inversion_walk,
)
from counterpose_core.editing.training_task import Learned
from counterpose_core.errors import Cancelled, CounterposeError, NumericalFailure, ResourceExhausted
from counterpose_core.types import Cost
from counterpose_services.batching.batch_size import together_or_alone
from counterpose_services.batching.outcomes import failure
from counterpose_services.editor.call import EngineCall, with_share_of_time
from counterpose_services.editor.tokens.files import (
    CHECKPOINT_FORMAT,
    Checkpoint,
    TokenBundle,
    pack_bundle,
    pack_checkpoint,
    unpack_checkpoint,
)
from counterpose_services.editor.tokens.learning_task import LearningTask, learning_task
from counterpose_services.editor.tokens.published import published_token
from counterpose_services.editor.tokens.training_latents import TrainingLatents

LINK_KIND = "token-link"


@dataclass(frozen=True)
class ClassState:
    """A class in this link: its task, its cost, and its checkpoint once the link has ended."""

    task: LearningTask
    cost: Cost
    end: Checkpoint | None = None


class TokenLearning:
    """The work of one request; an error of one class does not affect the others.

    The end of each link is cached, so that a call repeated after its answer was lost costs nothing.
    """

    def __init__(self, call: EngineCall, request: LearnTokensRequest) -> None:
        self._call, self._request, self._preset = call, request, request.preset
        self._pipeline, self._store = call.pipeline, call.store
        for prompt in self._preset.templates.prompts:
            self._pipeline.prompts.tokenize(prompt, self._preset.vectors)
        self._latents = TrainingLatents(call.pipeline, call.store, call.sizers)

    def answer(self) -> LearnTokensResponse:
        """Train every class for the steps of this link, and store its state."""
        results = [self._begin(index) for index in range(len(self._request.items))]
        waiting = {
            index: state
            for index, state in enumerate(results)
            if isinstance(state, ClassState) and state.end is None
        }
        encoding = sum((state.cost for state in waiting.values()), start=Cost())

        def work(indices: Sequence[int]) -> dict[int, ClassState | CounterposeError]:
            return self._learn({index: waiting[index] for index in indices})

        done = together_or_alone(list(waiting), work)
        for index, state in (each for part in done.results for each in part.items()):
            results[index] = state
        for index in done.too_large:
            results[index] = self._too_large(index)
        whole = self._call.cost(encoding)
        outcomes = [self._outcome(state, whole) for state in results]
        cost = self._call.cost(encoding)
        return LearnTokensResponse(outcomes=outcomes, model=self._pipeline.identity, cost=cost)

    def _begin(self, index: int) -> ClassState | LearnedToken | CounterposeError:
        """Find the state of a class and prepare the images of this link."""
        item = self._request.items[index]
        try:
            if item.published is not None:
                return published_token(self._call, item, item.published)
            task = learning_task(self._call, self._request, item, self._latents)
            if task.until == task.checkpoint.state.step:
                return ClassState(task, Cost(), task.checkpoint)
            if (cached := self._cached(task)) is not None:
                return ClassState(task, Cost(), cached)
            wanted = [task.shown(sample) for sample in task.samples()]
            return ClassState(task, self._latents.prepare(wanted, self._call.cancelled))
        except Cancelled:
            raise
        except CounterposeError as error:
            return error

    def _cached(self, task: LearningTask) -> Checkpoint | None:
        ref = self._store.recall(LINK_KIND, self._key(task))
        if ref is None:
            return None
        try:
            return unpack_checkpoint(self._store.get(ref), task.recipe, task.initial)
        except CounterposeError:
            # The checkpoint may expire between the two look-ups; then the link is trained again.
            return None

    def _key(self, task: LearningTask) -> str:
        # The links before do not matter: a chain of them equals a single one, up to rounding.
        precision = self._pipeline.denoiser.precision
        return cache_key(
            format=CHECKPOINT_FORMAT, recipe=dict(task.recipe), until=task.until, precision=precision
        )

    def _learn(self, states: Mapping[int, ClassState]) -> dict[int, ClassState | CounterposeError]:
        """Train classes in calls that all requests share."""
        call, preset = self._call, self._preset
        runner = call.runner()
        settings = TextualInversionSettings(
            learning_rate=preset.learning_rate, weight_decay=preset.weight_decay, pin_norm=preset.pin_norm
        )
        tasks = [state.task for state in states.values()]
        # Templates come first, because samples refer to them by index.
        own = dict.fromkeys(prompt for task in tasks for prompt in task.prompts())
        prompts = [*preset.templates.prompts, *own]
        numbers = {prompt: len(prompts) - len(own) + place for place, prompt in enumerate(own)}
        reader = self._pipeline.prompts.slot_reader([(prompt, preset.vectors) for prompt in prompts])
        token_tasks = [task.token_task(self._latents, numbers) for task in tasks]
        walk = textual_inversion_walk(token_tasks, reader, self._pipeline.schedule, settings, list(states))
        learned = dict(zip(states, runner.run(walk), strict=True))
        costs = {index: self._pipeline.flops.evaluation.priced(runner.cost(index)) for index in states}
        return {
            index: self._ended(replace(state, cost=state.cost + costs[index]), learned[index])
            for index, state in states.items()
        }

    def _ended(self, state: ClassState, learned: Learned) -> ClassState | CounterposeError:
        task = state.task
        if learned.broken:
            return self._not_finite(task, learned)
        end = task.after(learned)
        self._store.remember(LINK_KIND, self._key(task), self._store.put(pack_checkpoint(end, task.recipe)))
        return replace(state, end=end)

    def _not_finite(self, task: LearningTask, learned: Learned) -> NumericalFailure:
        if not bool(torch.isfinite(task.initial).all()):
            return NumericalFailure(f"the text encoder's vectors of {task.initialiser!r} are not finite")
        step = task.checkpoint.state.step + len(learned.losses)
        return NumericalFailure(
            f"what is learned of {task.item.class_name!r} is not finite in "
            f"{self._pipeline.denoiser.precision} at step {step} of {self._preset.steps}"
        )

    def _too_large(self, index: int) -> ResourceExhausted:
        name = self._request.items[index].class_name
        return ResourceExhausted(f"learning {name!r} alone needs more memory than there is")

    def _outcome(
        self, state: ClassState | LearnedToken | CounterposeError, whole: Cost
    ) -> Outcome[LearnedToken]:
        if isinstance(state, CounterposeError):
            return failure(state)
        if isinstance(state, LearnedToken):
            return Outcome[LearnedToken](value=state)
        cost = with_share_of_time(state.cost, whole, len(self._request.items))
        return Outcome[LearnedToken](value=self._token(state.task, state.end or state.task.checkpoint, cost))

    def _token(self, task: LearningTask, end: Checkpoint, cost: Cost) -> LearnedToken:
        ended = end.state.step == self._preset.steps
        offers = token_offers(self._call, self._request, task, end) if ended else []
        return LearnedToken(
            class_name=task.item.class_name,
            steps=end.state.step,
            checkpoint=self._store.put(pack_checkpoint(end, task.recipe)),
            bundle=offers[-1].bundle if offers else None,
            offers=offers,
            losses=list(end.losses[task.checkpoint.state.step :]),
            images=len(task.images),
            dropped=list(end.dropped),
            cost=cost,
        )


def token_offers(
    call: EngineCall, request: LearnTokensRequest, task: LearningTask, end: Checkpoint
) -> list[TokenOffer]:
    """Store a bundle for each interpolation weight between the initialiser and the learned token.

    Args:
        call: the current call.
        request: the preset and the seed.
        task: the class, with its initial vectors (k, D).
        end: its last checkpoint.
    """
    model, offers = call.pipeline.identity, []
    for weight in dict.fromkeys(request.preset.interpolation_weights):
        description = TokenDescription(
            class_name=task.item.class_name,
            initialiser=task.initialiser,
            model=model,
            width=end.state.vectors.shape[1],
            vectors=end.state.vectors.shape[0],
            steps=end.state.step,
            pin_norm=request.preset.pin_norm,
            interpolation_weight=weight,
            templates=request.preset.templates.name if task.item.prompts is None else OWN_PROMPTS,
            images=len(task.images),
            data_digest=cache_key(images=[each.image for each in task.images]),
            seed=request.seed,
        )
        vectors = _interpolated(task.initial, end.state.vectors, weight, pin_norm=request.preset.pin_norm)
        ref = call.store.put(pack_bundle(TokenBundle(vectors, description)))
        offers.append(TokenOffer(interpolation_weight=weight, bundle=ref))
    return offers


def _interpolated(initial: Tensor, learned: Tensor, weight: float, *, pin_norm: bool) -> Tensor:
    """Return the vectors (k, D) at ``weight`` of the way from the initial to the learned ones (k, D)."""
    # The pinned vectors are those that the text encoder saw; the optimiser's may have any length.
    seen = pinned(learned, initial) if pin_norm else learned
    mixed = torch.lerp(initial, seen, weight)
    return pinned(mixed, initial) if pin_norm else mixed
