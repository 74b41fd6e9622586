"""Collects caption pairs for fine-tuning from any OpenAI-compatible endpoint.

    python -m faultline_services.perturber.collect --captions captions.txt --out pairs.jsonl \
        --base-url http://127.0.0.1:8000/v1 --model some-model

The paper's amounts (LANCE, Table 1: 0.6k pairs): 100 for each of the six instructions, so 200 for
background. If it is stopped and started again, it continues with what is missing.
"""

from __future__ import annotations

import argparse
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from faultline_core.errors import BackendUnavailable, BadBackendOutput, InvalidRequest
from faultline_core.text.caption_diff import parse_variations
from faultline_core.types import EDIT_TYPES
from faultline_services.perturber.pairs import CaptionPair, append_pairs, rewrite_whole_lines
from faultline_services.perturber.prompts import INSTRUCTIONS, Instruction, collection_prompt

PAIRS_AN_INSTRUCTION = 100
EDITS_A_CAPTION = 5
ATTEMPTS = 5
TIMEOUT_S = 120.0
_DOMAIN_OPENING = "a photo of "

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Assistant:
    """A chat endpoint: its client, model and sampling settings; `sleep` waits between retries."""

    client: httpx.Client
    model: str
    temperature: float = 1.0
    max_tokens: int = 400
    sleep: Callable[[float], None] = time.sleep

    def answer(self, prompt: str, *, seed: int) -> str:
        """Return the reply to one message.

        Raises:
            BackendUnavailable: it refused the request or could not be reached, several times in a row.
            BadBackendOutput: it did not answer with a chat completion.
        """
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": seed,
        }
        response = self._posted(body)
        try:
            return str(response.json()["choices"][0]["message"]["content"])
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise BadBackendOutput(
                f"the endpoint did not return a chat completion: {response.text[:200]!r}"
            ) from error

    def _posted(self, body: dict[str, object]) -> httpx.Response:
        problem = "no request was sent"
        for attempt in range(ATTEMPTS):
            if attempt:
                # 30 s in total: hosted endpoints have limits per minute.
                self.sleep(2.0**attempt)
            try:
                response = self.client.post("chat/completions", json=body)
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
                continue
            if response.is_success:
                return response
            problem = f"{response.status_code} {response.text[:200]!r}"
            # Any other refusal would be repeated.
            if response.status_code != 429 and response.status_code < 500:
                break
        raise BackendUnavailable(f"the endpoint did not answer after {ATTEMPTS} attempts: {problem}")


def collect(
    captions: Sequence[str],
    assistant: Assistant,
    out: Path,
    *,
    seed: int,
    pairs_an_instruction: int = PAIRS_AN_INSTRUCTION,
    placebo: bool = False,
) -> dict[str, int]:
    """Collect until every instruction has its pairs or captions run out; return the number of pairs of each.

    Each instruction takes the captions in its own shuffled order, and each caption once.

    Args:
        captions: captions to ask about.
        assistant: the instruction-following model.
        out: the file of JSON lines; pairs are appended as they arrive.
        seed: determines the orders.
        pairs_an_instruction: the number of pairs wanted for each instruction.
        placebo: also collect rewordings that change nothing.
    """
    kept = rewrite_whole_lines(out)
    have = Counter(pair.instruction for pair in kept)
    asked = {(pair.instruction, pair.caption) for pair in kept}
    for instruction in _instructions(placebo=placebo):
        fresh = [
            text for text in _order(captions, instruction, seed) if (instruction.name, text) not in asked
        ]
        for number, caption in enumerate(fresh):
            missing = pairs_an_instruction - have[instruction.name]
            if missing <= 0:
                break
            pairs = _pairs(assistant, instruction, caption, seed=seed + number)[:missing]
            append_pairs(out, pairs)
            have[instruction.name] += len(pairs)
        _log.info("%s: %d pairs", instruction.name, have[instruction.name])
    return dict(have)


def _instructions(*, placebo: bool) -> Iterator[Instruction]:
    for kind in (*EDIT_TYPES, *(("placebo",) if placebo else ())):
        yield from INSTRUCTIONS[kind]


def _order(captions: Sequence[str], instruction: Instruction, seed: int) -> list[str]:
    opening = _DOMAIN_OPENING if instruction.perturbation_type == "domain" else ""
    texts = list(dict.fromkeys(_opened(caption, opening) for caption in captions))
    # With one order for all, every instruction would use the same few captions.
    random.Random(f"{seed} {instruction.name}").shuffle(texts)
    return texts


def _opened(caption: str, opening: str) -> str:
    """Name the kind of image, so that a domain edit has a word to change (LANCE, Table 5)."""
    return caption if caption.lower().startswith(opening) else opening + caption


def _pairs(assistant: Assistant, instruction: Instruction, caption: str, *, seed: int) -> list[CaptionPair]:
    reply = assistant.answer(collection_prompt(instruction, caption, wanted=EDITS_A_CAPTION), seed=seed)
    return [
        CaptionPair(
            instruction=instruction.name,
            perturbation_type=instruction.perturbation_type,
            caption=caption,
            edited_caption=edited,
        )
        for edited in parse_variations(reply, original=caption)[:EDITS_A_CAPTION]
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Collect pairs for the captions of a text file, one per line."""
    parser = argparse.ArgumentParser(prog="python -m faultline_services.perturber.collect")
    parser.add_argument("--captions", type=Path, required=True, help="text file, one caption per line")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file of pairs; appended to")
    parser.add_argument("--base-url", required=True, help="OpenAI-compatible endpoint, including /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--api-key-file", type=Path, default=None)
    parser.add_argument("--pairs", type=int, default=PAIRS_AN_INSTRUCTION, help="pairs per instruction")
    parser.add_argument("--placebo", action="store_true", help="collect placebos too")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    captions = [
        line.strip() for line in options.captions.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    if not captions:
        raise InvalidRequest(f"{options.captions.name!r} has no caption; write one per line")
    headers = {}
    if options.api_key_file is not None:
        headers["Authorization"] = f"Bearer {options.api_key_file.read_text(encoding='utf-8').strip()}"
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with httpx.Client(base_url=options.base_url, headers=headers, timeout=TIMEOUT_S) as client:
        assistant = Assistant(client, options.model)
        collect(
            captions, assistant, options.out, seed=options.seed, pairs_an_instruction=options.pairs,
            placebo=options.placebo,
        )  # fmt: skip


if __name__ == "__main__":
    main()
