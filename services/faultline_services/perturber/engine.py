"""The perturber: caption edits from a LLaMA-class model with a LoRA adapter, likelihoods from its base."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

# Before anything that imports torchvision, as transformers does.
from faultline_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from faultline_core.blobs import digest
from faultline_core.contract.base import MAX_BATCH, ModelIdentity
from faultline_core.contract.perturber import (
    LikelihoodsRequest,
    LikelihoodsResponse,
    Perturbations,
    PerturbItem,
    PerturbRequest,
    PerturbResponse,
    TextLikelihood,
)
from faultline_core.errors import BadBackendOutput, InvalidRequest, PromptTooLong, UnknownModel
from faultline_core.suite import PerturberSuite
from faultline_core.text.caption_diff import parse_variations
from faultline_core.types import Cost
from faultline_services.batching.outcomes import settle
from faultline_services.models.fitting_weights import load_fitting
from faultline_services.models.model_folder import folder_revision
from faultline_services.models.weights import weights_folder
from faultline_services.perturber.language_model import Row, Sampling, log_likelihoods, sample
from faultline_services.perturber.prompts import INSTRUCTIONS, prompt_for
from faultline_services.perturber.proposals import UNFINISHED, UNREADABLE, Proposals

ROUNDS = 3
"""Draws without a usable edit are repeated; a caption that yields none in three rounds yields none later."""


@dataclass(frozen=True)
class _Asked:
    """An item and the token ids of its prompts; successive draws take turns with these."""

    item: PerturbItem
    prompts: list[list[int]]


class PerturberEngine:
    """Proposes caption edits and returns likelihoods; answers depend on the seed, not on the batch.

    With the ``compact`` prompt, a model answers with one edited caption per draw; with ``instruction``, it
    answers with a list (LANCE, section 3.1).
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        identity: ModelIdentity,
        suite: PerturberSuite,
        base_identity: ModelIdentity,
    ) -> None:
        self._model, self._tokenizer, self._suite = model.eval(), tokenizer, suite
        self.identity, self._base_identity = identity, base_identity
        self._ends = {int(tokenizer.eos_token_id)}
        self._pad = int(tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)
        self._sampling = Sampling(suite.temperature, suite.top_k, suite.max_new_tokens)

    @classmethod
    def load(
        cls, suite: PerturberSuite, root: Path, *, device: str = "cpu", dtype: str = "float32"
    ) -> PerturberEngine:
        """Load the base and the adapter from folders under ``root``.

        The adapter stays beside the base: merged, likelihoods would need a copy of the base's matrices, 2 GB
        of a LLaMA-7B.

        Args:
            suite: names both folders, and gives limits.
            root: the folder of all models.
            device: the device of the model, such as ``cuda:0``.
            dtype: the precision of the model.

        Raises:
            UnknownModel: there is no such folder, or the suite names another engine.
            ModelFormatRefused: weights are not safetensors.
        """
        if suite.engine != "transformers":
            raise UnknownModel(f"there is no perturber engine {suite.engine!r}; check the suite")
        folder = weights_folder(root, suite.model, suite.published)
        model: PreTrainedModel = load_fitting(
            AutoModelForCausalLM, folder, trust_remote_code=False, dtype=getattr(torch, dtype)
        )
        identity = alone = ModelIdentity(id=suite.model, revision=folder_revision(folder))
        if suite.adapter is not None:
            adapter = weights_folder(root, suite.adapter, suite.published)
            model = PeftModel.from_pretrained(model, str(adapter))
            revision = digest(f"{alone.revision} {folder_revision(adapter)}".encode())
            identity = ModelIdentity(id=f"{alone.id}+{suite.adapter}", revision=revision)
        return cls(
            model.to(torch.device(device)),
            AutoTokenizer.from_pretrained(folder, trust_remote_code=False),
            identity=identity,
            suite=suite,
            base_identity=alone,
        )

    def perturb(self, request: PerturbRequest) -> PerturbResponse:
        """Propose edits of each caption."""
        started = time.monotonic()
        with torch.inference_mode():
            outcomes = settle(
                # `_propose` batches the rows: an item needs several, and more if draws are unusable.
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
        with torch.inference_mode(), self._without_adapter():
            outcomes = settle(
                request.texts, prepare=self._tokens, run=self._weigh, finish=_finite, batch=self._suite.batch
            )
        return LikelihoodsResponse(outcomes=outcomes, model=self._base_identity, cost=_since(started))

    def _without_adapter(self) -> AbstractContextManager[None]:
        return self._model.disable_adapter() if isinstance(self._model, PeftModel) else nullcontext()

    def _tokens(self, text: str) -> list[int]:
        """Return the ids of the text, after the start token."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        if not ids or self._tokenizer.unk_token_id in ids:
            raise InvalidRequest(f"the language model's vocabulary lacks a word of {text!r}; use other words")
        start = self._tokenizer.bos_token_id
        ids = [int(self._tokenizer.eos_token_id if start is None else start), *ids]
        if len(ids) > self._model.config.max_position_embeddings:
            raise PromptTooLong(
                f"{text!r} has {len(ids) - 1} tokens, more than the language model reads; shorten it"
            )
        return ids

    def _weigh(self, rows: list[list[int]]) -> list[float]:
        return log_likelihoods(self._model, rows, pad=self._pad)

    def _ask(self, item: PerturbItem) -> _Asked:
        style, kind = self._suite.prompt, item.perturbation_type
        prompts = [
            list[int](self._tokenizer(prompt_for(style, kind, item.caption, variant=variant))["input_ids"])
            for variant in range(len(INSTRUCTIONS[kind]))
        ]
        # A word outside the vocabulary would be lost: the model would edit another caption.
        if any(self._tokenizer.unk_token_id in prompt for prompt in prompts):
            raise InvalidRequest(
                f"the perturber's vocabulary lacks a word of {item.caption!r}; use other words"
            )
        # Tokenizers find special tokens in plain text; one in a caption would end the prompt.
        caption = self._tokenizer(item.caption, add_special_tokens=False)["input_ids"]
        if not set(self._tokenizer.all_special_ids).isdisjoint(caption):
            raise InvalidRequest(
                f"the caption {item.caption!r} contains a special token of the tokenizer; remove it"
            )
        longest = max(len(prompt) for prompt in prompts)
        if longest + self._suite.max_new_tokens > self._model.config.max_position_embeddings:
            raise PromptTooLong(
                f"the prompt for {item.caption!r} has {longest} tokens and leaves no room for an answer; "
                "shorten the caption"
            )
        return _Asked(item, prompts)

    def _propose(self, asked: list[_Asked]) -> list[Proposals]:
        found = [Proposals(one.item.caption, one.item.n) for one in asked]
        for _ in range(ROUNDS):
            drawn: list[tuple[Proposals, Row]] = []
            for one, proposals in zip(asked, found, strict=True):
                drawn += [(proposals, self._row(one, proposals)) for _ in range(self._draws(proposals))]
            for start in range(0, len(drawn), self._suite.batch):
                self._take(drawn[start : start + self._suite.batch])
        return found

    def _draws(self, proposals: Proposals) -> int:
        # A list from one draw may hold all missing edits.
        return proposals.missing if self._suite.prompt == "compact" else min(proposals.missing, 1)

    def _row(self, asked: _Asked, proposals: Proposals) -> Row:
        draw, proposals.draws = proposals.draws, proposals.draws + 1
        return Row(asked.prompts[draw % len(asked.prompts)], asked.item.seed, draw)

    def _take(self, drawn: list[tuple[Proposals, Row]]) -> None:
        rows = [row for _, row in drawn]
        answers = sample(self._model, rows, self._sampling, pad=self._pad, ends=self._ends)
        for (proposals, _), ids in zip(drawn, answers, strict=True):
            if self._tokenizer.unk_token_id in ids:
                proposals.dropped[UNREADABLE] += 1
            elif self._suite.prompt == "compact" and ids[-1] not in self._ends:
                proposals.dropped[UNFINISHED] += 1
            else:
                self._read(proposals, self._tokenizer.decode(ids, skip_special_tokens=True))

    def _read(self, proposals: Proposals, text: str) -> None:
        for edited in [text.strip()] if self._suite.prompt == "compact" else parse_variations(text):
            proposals.take(edited)


def _since(started: float) -> Cost:
    return Cost(seconds=time.monotonic() - started)


def _answer(_: _Asked, proposals: Proposals) -> Perturbations:
    return proposals.answer()


def _finite(ids: list[int], nats: float) -> TextLikelihood:
    if not math.isfinite(nats):
        raise BadBackendOutput(f"the log-likelihood of a text of {len(ids) - 1} tokens is {nats}")
    # If the model is certain of every token, rounding may give a number above 0.
    return TextLikelihood(nats=min(nats, 0.0), tokens=len(ids) - 1)
