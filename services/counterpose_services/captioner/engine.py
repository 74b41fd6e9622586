"""The captioner: beam-searched captions and likelihoods of given texts, on a BLIP-2-class model."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from torch import Tensor
from transformers import Blip2ForConditionalGeneration, PreTrainedTokenizerBase

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ModelIdentity, Outcome
from counterpose_core.contract.captioner import (
    Caption,
    CaptionItem,
    CaptionRequest,
    CaptionResponse,
    LogLikelihood,
    LogLikelihoodItem,
    LogLikelihoodRequest,
    LogLikelihoodResponse,
)
from counterpose_core.errors import BadBackendOutput, InvalidRequest, ModelFormatRefused, PromptTooLong
from counterpose_core.images.codecs import decode_image
from counterpose_core.suite import CaptionerSuite
from counterpose_core.types import Cost
from counterpose_services.batching.outcomes import settle
from counterpose_services.captioner.language_side import language_side
from counterpose_services.captioner.shortening import shortened
from counterpose_services.captioner.wording import joined, prefix_for
from counterpose_services.models.fitting_weights import load_fitting
from counterpose_services.models.image_processors import Preparation, load_image_processor
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.models.tokenizers import load_tokenizer
from counterpose_services.models.weights import weights_folder

IMAGE_WORD = "<image>"


@dataclass(frozen=True)
class _Sight:
    """An image as the model reads it, float (3, H, W), and the words that its caption continues."""

    pixels: Tensor
    prefix: str


@dataclass(frozen=True)
class _Draft:
    """The caption of an image: the text after the prefix, and whether it was shortened."""

    sight: _Sight
    text: str
    shortened: bool = False


@dataclass(frozen=True)
class _Weighed:
    """A draft with the token ids of its prompt and of its answer, ready for the likelihood."""

    draft: _Draft
    prompt: list[int]
    answer: list[int]


class CaptionerEngine:
    """Captions images deterministically; a caption does not depend on the rest of its batch."""

    def __init__(
        self,
        model: Blip2ForConditionalGeneration,
        tokenizer: PreTrainedTokenizerBase,
        prepared: Preparation,
        *,
        identity: ModelIdentity,
        suite: CaptionerSuite,
        store: BlobStore,
    ) -> None:
        self._model, self._tokenizer, self._prepared = model.eval(), tokenizer, prepared
        self._suite, self._store = suite, store
        self.identity = identity
        # These tokens precede the words; the Q-Former's outputs replace them (BLIP-2, figure 3).
        self._image_marks = [_image_mark(model, tokenizer)] * int(model.config.num_query_tokens)
        self._side = language_side(model)
        if tokenizer.pad_token_id is None:
            raise ModelFormatRefused(
                "the captioner's tokenizer has no token for padding; name its 'pad_token' in "
                "tokenizer_config.json"
            )
        ends = model.language_model.generation_config.eos_token_id
        self._ends = set(ends if isinstance(ends, list) else [ends])

    @classmethod
    def load(
        cls,
        suite: CaptionerSuite,
        root: Path,
        store: BlobStore,
        *,
        device: str = "cpu",
        dtype: str = "float32",
    ) -> CaptionerEngine:
        """Load the suite's model from its folder under ``root``.

        Args:
            suite: names the folder, and gives limits.
            root: the folder of all models.
            store: where images are read.
            device: the device of the model, such as ``cuda:0``.
            dtype: the precision of the model.

        Raises:
            UnknownModel: there is no such folder.
            ModelFormatRefused: its weights are not safetensors, its tokenizer or image processor is missing,
                or no token stands for the image.
        """
        folder = weights_folder(root, suite.model, suite.published)
        tokenizer, prepared = load_tokenizer(folder), load_image_processor(folder)
        model = load_fitting(Blip2ForConditionalGeneration, folder, dtype=getattr(torch, dtype))
        return cls(
            model.to(torch.device(device)),
            tokenizer,
            prepared,
            identity=ModelIdentity(id=suite.model, revision=folder_revision(folder)),
            suite=suite,
            store=store,
        )

    def caption(self, request: CaptionRequest) -> CaptionResponse:
        """Caption each image by beam search (LANCE, section 3.1 and Table 6)."""
        started, batch = time.monotonic(), self._suite.batch

        def see(item: CaptionItem) -> _Sight:
            prefix = prefix_for(self._suite, item.label) if item.prefix is None else item.prefix
            return self._sight(item.image, prefix)

        def weigh(draft: Outcome[_Draft]) -> _Weighed:
            return self._weighed(draft.unwrap())

        with torch.inference_mode():
            drafts = settle(request.items, prepare=see, run=self._write, finish=self._draft, batch=batch)
            # Beam scores will not do: they are divided by length and belong to the text before shortening.
            outcomes = settle(drafts, prepare=weigh, run=self._likelihoods, finish=_caption, batch=batch)
        cost = Cost(seconds=time.monotonic() - started)
        return CaptionResponse(outcomes=outcomes, model=self.identity, cost=cost)

    def log_likelihood(self, request: LogLikelihoodRequest) -> LogLikelihoodResponse:
        """Return log p(text | image, prefix) of each item, in nats, summed over the text's tokens."""
        started = time.monotonic()

        def weigh(item: LogLikelihoodItem) -> _Weighed:
            return self._weighed(_Draft(self._sight(item.image, item.prefix), item.text))

        with torch.inference_mode():
            outcomes = settle(
                request.items, prepare=weigh, run=self._likelihoods, finish=_finite, batch=self._suite.batch
            )
        cost = Cost(seconds=time.monotonic() - started)
        return LogLikelihoodResponse(outcomes=outcomes, model=self.identity, cost=cost)

    def _sight(self, image: str, prefix: str) -> _Sight:
        return _Sight(self._prepared(decode_image(self._store.get(image))), prefix)

    def _prompt(self, prefix: str) -> list[int]:
        return [*self._image_marks, *self._tokenizer(prefix)["input_ids"]]

    def _tokens(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _write(self, sights: list[_Sight]) -> list[list[int]]:
        """Return the new token ids of each caption, with the end token if it was reached."""
        prompts = [self._prompt(sight.prefix) for sight in sights]
        # A decoder continues from the last column, so every prompt has to end there.
        ids, mask = self._padded(prompts, left=self._side.pads_left)
        made = self._model.generate(
            pixel_values=self._stacked(sights),
            input_ids=ids,
            attention_mask=mask,
            num_beams=self._suite.beams,
            do_sample=False,
            min_new_tokens=self._suite.min_tokens,
            max_new_tokens=self._suite.max_tokens,
            repetition_penalty=self._suite.repetition_penalty,
            pad_token_id=self._tokenizer.pad_token_id,
        )
        new: list[list[int]] = self._side.new_tokens(made, ids.shape[1]).tolist()
        return new

    def _draft(self, sight: _Sight, ids: list[int]) -> _Draft:
        text = self._tokenizer.decode(ids, skip_special_tokens=True).strip()
        if not text:
            raise BadBackendOutput("the captioner returned an empty caption for this image")

        def fits(beginning: str) -> bool:
            return len(self._tokens(joined(sight.prefix, beginning))) <= self._suite.text_limit

        kept = shortened(text, fits, complete=not self._ends.isdisjoint(ids))
        return _Draft(sight, kept, shortened=kept != text)

    def _weighed(self, draft: _Draft) -> _Weighed:
        prompt = self._prompt(draft.sight.prefix)
        # An OPT token includes the space before it, so the first one after a prefix begins with a space.
        spaced = bool(draft.sight.prefix) and self._side.spaced
        answer = self._tokens(f" {draft.text}" if spaced else draft.text)
        if not answer:
            raise InvalidRequest(f"the captioner's tokenizer reads no token in the text {draft.text!r}")
        if len(prompt) + len(answer) > self._side.longest:
            raise PromptTooLong(
                f"the text {draft.text!r} has {len(answer)} tokens, more than the captioner reads; shorten it"
            )
        return _Weighed(draft, prompt, answer)

    def _likelihoods(self, weighed: list[_Weighed]) -> list[float]:
        prompts = self._padded([one.prompt for one in weighed], left=True)
        answers = self._padded([one.answer for one in weighed], left=False)
        odds = self._side.log_odds(self._stacked([one.draft.sight for one in weighed]), prompts, answers)
        return [float(row[: len(one.answer)].sum()) for row, one in zip(odds, weighed, strict=True)]

    def _stacked(self, sights: Sequence[_Sight]) -> Tensor:
        return torch.stack([sight.pixels for sight in sights]).to(self._model.device, self._model.dtype)

    def _padded(self, rows: list[list[int]], *, left: bool) -> tuple[Tensor, Tensor]:
        """Return ids and mask, int64 (n, L)."""
        width, pad = max(len(row) for row in rows), int(self._tokenizer.pad_token_id)
        gaps = [width - len(row) for row in rows]
        ids, mask = [], []
        for row, gap in zip(rows, gaps, strict=True):
            ids.append([pad] * gap + row if left else row + [pad] * gap)
            mask.append([0] * gap + [1] * len(row) if left else [1] * len(row) + [0] * gap)
        place = self._model.device
        return torch.tensor(ids, device=place), torch.tensor(mask, device=place)


def _image_mark(model: Blip2ForConditionalGeneration, tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the token that stands for the image: the configuration's, which older ones lack, or <image>."""
    mark = model.config.image_token_index
    mark = tokenizer.get_vocab().get(IMAGE_WORD) if mark is None else mark
    words = model.get_input_embeddings().num_embeddings
    if not isinstance(mark, int) or not 0 <= mark < words:
        raise ModelFormatRefused(
            f"no token of the model's {words} stands for the image: image_token_index of config.json, or "
            f"else {IMAGE_WORD!r} of the tokenizer, is {mark!r}; take a later revision of the model"
        )
    model.config.image_token_index = mark
    return mark


def _finite(weighed: _Weighed, total: float) -> LogLikelihood:
    if not math.isfinite(total):
        raise BadBackendOutput(f"the log-likelihood of {weighed.draft.text!r} is {total}")
    return LogLikelihood(total=total, tokens=len(weighed.answer))


def _caption(weighed: _Weighed, total: float) -> Caption:
    likelihood = _finite(weighed, total)
    return Caption(
        text=joined(weighed.draft.sight.prefix, weighed.draft.text),
        log_likelihood=likelihood.total,
        tokens=likelihood.tokens,
        shortened=weighed.draft.shortened,
    )
