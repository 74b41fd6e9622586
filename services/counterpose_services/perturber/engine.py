"""The perturber: caption edits from a language model with its adapter, likelihoods from its base."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from counterpose_core.contract.base import MAX_BATCH
from counterpose_core.contract.perturber import (
    LikelihoodsRequest,
    LikelihoodsResponse,
    Perturbations,
    PerturbItem,
    PerturbRequest,
    PerturbResponse,
)
from counterpose_core.errors import CounterposeError
from counterpose_core.served_calls import DRAWING_ROUNDS
from counterpose_core.suite import PerturberSuite
from counterpose_core.text.caption_diff import parse_variations
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.perturber.language_model import LanguageModel, Prompt, Row, Written
from counterpose_services.perturber.prompt_file import prompts_of
from counterpose_services.perturber.prompts import OURS, Prompts, PromptStyle
from counterpose_services.perturber.proposals import UNFINISHED, UNREADABLE, Proposals


@dataclass(frozen=True)
class _Asked:
    """An item and its prompts; successive draws take turns with these."""

    item: PerturbItem
    prompts: list[Prompt]


class PerturberEngine:
    """Proposes caption edits and returns likelihoods; answers depend on the seed, not on the batch.

    With the ``compact`` prompt, a model answers with one edited caption per draw; with ``instruction`` and
    ``chat``, it answers with a list (LANCE, section 3.1).
    """

    def __init__(self, model: LanguageModel, *, style: PromptStyle, prompts: Prompts = OURS) -> None:
        self._model, self._style, self._prompts = model, style, prompts
        self.identity = prompts.named(model.identity)

    @classmethod
    def load(
        cls, suite: PerturberSuite, root: Path, *, device: str = "cpu", dtype: str = "float32"
    ) -> PerturberEngine:
        """Load the base and the adapter from folders under ``root`` into this process.

        Args:
            suite: names both folders, and gives limits.
            root: the folder of all models.
            device: the device of the model, such as ``cuda:0``.
            dtype: the precision of the model.

        Raises:
            UnknownModel: there is no such folder.
            ModelFormatRefused: weights are not safetensors, or a model without chat template is to chat.
        """
        from counterpose_services.perturber.transformers_model import TransformersModel

        model = TransformersModel.load(suite, root, device=device, dtype=dtype)
        return cls(model, style=suite.prompt, prompts=prompts_of(suite))

    def perturb(self, request: PerturbRequest) -> PerturbResponse:
        """Propose edits of each caption."""
        started = time.monotonic()
        outcomes = settle(
            # The model batches the rows: an item needs several, and more if draws are unusable.
            request.items,
            prepare=self._ask,
            run=self._propose,
            finish=_answer,
            batch=MAX_BATCH,
        )
        return PerturbResponse(outcomes=outcomes, model=self.identity, cost=_since(started))

    def likelihoods(self, request: LikelihoodsRequest) -> LikelihoodsResponse:
        """Return log p of each text under the base alone, in nats, summed over the text's tokens."""
        started = time.monotonic()
        outcomes = self._model.weigh(request.texts)
        return LikelihoodsResponse(outcomes=outcomes, model=self._model.base_identity, cost=_since(started))

    def _ask(self, item: PerturbItem) -> _Asked:
        asked = self._prompts.asked(self._style, item.perturbation_type, item.caption)
        return _Asked(item, [self._model.prompt(one, item.caption) for one in asked])

    def _propose(self, asked: list[_Asked]) -> list[Proposals | CounterposeError]:
        found: list[Proposals | CounterposeError] = [Proposals(one.item.caption, one.item.n) for one in asked]
        for _ in range(DRAWING_ROUNDS):
            drawn = [
                (place, self._row(one, proposals))
                for place, (one, proposals) in enumerate(zip(asked, found, strict=True))
                if isinstance(proposals, Proposals)
                for _ in range(self._draws(proposals))
            ]
            answers = self._model.write([row for _, row in drawn])
            for (place, _), answer in zip(drawn, answers, strict=True):
                found[place] = self._take(found[place], answer)
        return found

    def _draws(self, proposals: Proposals) -> int:
        # A list from one draw may hold all missing edits.
        return proposals.missing if self._style == "compact" else min(proposals.missing, 1)

    def _row(self, asked: _Asked, proposals: Proposals) -> Row:
        draw, proposals.draws = proposals.draws, proposals.draws + 1
        return Row(asked.prompts[draw % len(asked.prompts)], asked.item.seed, draw)

    def _take(
        self, proposals: Proposals | CounterposeError, answer: Written | CounterposeError
    ) -> Proposals | CounterposeError:
        """Add what was answered; an item of which one draw failed has failed."""
        if isinstance(proposals, CounterposeError):
            return proposals
        if isinstance(answer, CounterposeError):
            return answer
        if not answer.readable:
            proposals.dropped[UNREADABLE] += 1
        elif not answer.finished and (self._style == "compact" or answer.captions == ()):
            proposals.dropped[UNFINISHED] += 1
        else:
            for edited in self._captions(answer):
                proposals.take(edited)
        return proposals

    def _captions(self, answer: Written) -> list[str]:
        if answer.captions is not None:
            return [caption.strip() for caption in answer.captions]
        return [answer.text.strip()] if self._style == "compact" else parse_variations(answer.text)


def _since(started: float) -> Cost:
    return Cost(seconds=time.monotonic() - started)


def _answer(_: _Asked, proposals: Proposals) -> Perturbations:
    return proposals.answer()
