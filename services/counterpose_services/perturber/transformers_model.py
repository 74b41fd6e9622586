"""A language model in this process: transformers, with its adapter by PEFT."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

# Before anything that imports torchvision, as transformers does.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, PreTrainedModel

from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.perturber import TextLikelihood
from counterpose_core.errors import CounterposeError
from counterpose_core.suite import PerturberSuite
from counterpose_services.batching.outcomes import settle
from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.perturber.folders import model_folders
from counterpose_services.perturber.language_model import Messages, Row, Sampling, Written, text_likelihood
from counterpose_services.perturber.sampling import log_likelihoods, sample
from counterpose_services.perturber.vocabulary import Vocabulary


class TransformersModel:
    """A causal language model, ``batch`` rows at a time."""

    def __init__(
        self,
        model: PreTrainedModel,
        vocabulary: Vocabulary,
        *,
        identities: tuple[ModelIdentity, ModelIdentity],
        sampling: Sampling,
        batch: int,
    ) -> None:
        self._model, self._vocabulary = model.eval(), vocabulary
        self.identity, self.base_identity = identities
        self._sampling, self._batch = sampling, batch
        ends = model.generation_config.eos_token_id
        # Models that chat end an answer with another token than a document.
        self._ends = {vocabulary.end, *(ends if isinstance(ends, list) else [ends])} - {None}

    @classmethod
    def load(cls, suite: PerturberSuite, root: Path, *, device: str, dtype: str) -> TransformersModel:
        """Load the base and the adapter from folders under ``root``.

        The adapter stays beside the base: merged, likelihoods would need a copy of the base's matrices, 2 GB
        of a LLaMA-7B.

        Raises:
            UnknownModel: there is no such folder.
            ModelFormatRefused: weights are not safetensors or do not fit their configuration, or a model
                without chat template is to chat.
        """
        found = model_folders(suite, root)
        vocabulary = Vocabulary.load(found.base, room=suite.max_new_tokens)
        if suite.prompt == "chat":
            vocabulary.require_chat_template(suite.model)
        model: PreTrainedModel = load_fitting(
            AutoModelForCausalLM, found.base, trust_remote_code=False, dtype=getattr(torch, dtype)
        )
        if found.adapter is not None:
            model = PeftModel.from_pretrained(model, str(found.adapter))
        return cls(
            model.to(torch.device(device)),
            vocabulary,
            identities=(found.identity, found.base_identity),
            sampling=Sampling(suite.temperature, suite.top_k, suite.max_new_tokens),
            batch=suite.batch,
        )

    def prompt(self, asked: str | Messages, caption: str) -> list[int]:
        """Return the ids of a prompt about ``caption``; raises as `Vocabulary.prompt` does."""
        return self._vocabulary.prompt(asked, caption)

    def write(self, rows: Sequence[Row]) -> list[Written | CounterposeError]:
        """Answer each row's prompt."""
        answers: list[Written | CounterposeError] = []
        with torch.inference_mode():
            for start in range(0, len(rows), self._batch):
                answers += map(self._written, self._sampled(rows[start : start + self._batch]))
        return answers

    def weigh(self, texts: Sequence[str]) -> list[Outcome[TextLikelihood]]:
        """Return log p of each text under the base alone, in nats, summed over the text's tokens."""
        with torch.inference_mode(), self._without_adapter():
            return settle(
                texts, prepare=self._vocabulary.text, run=self._weighed, finish=_finite, batch=self._batch
            )

    def _without_adapter(self) -> AbstractContextManager[None]:
        return self._model.disable_adapter() if isinstance(self._model, PeftModel) else nullcontext()

    def _sampled(self, rows: Sequence[Row]) -> list[list[int]]:
        return sample(self._model, rows, self._sampling, pad=self._vocabulary.pad, ends=self._ends)

    def _written(self, ids: list[int]) -> Written:
        return Written(
            self._vocabulary.read(ids), finished=ids[-1] in self._ends, readable=self._vocabulary.knows(ids)
        )

    def _weighed(self, rows: list[list[int]]) -> list[float]:
        return log_likelihoods(self._model, rows, pad=self._vocabulary.pad)


def _finite(ids: list[int], nats: float) -> TextLikelihood:
    return text_likelihood(nats, len(ids) - 1)
