"""Collects caption pairs for fine-tuning from any OpenAI-compatible endpoint.

    python -m counterpose_services.perturber.collect --captions captions.txt --out pairs.jsonl \
        --base-url http://127.0.0.1:8000/v1 --model some-model

The paper's amounts (LANCE, Table 1: 0.6k pairs): 100 for each of the six instructions, so 200 for
background. If it is stopped and started again, it continues with what is missing.
"""

from __future__ import annotations

import argparse
import logging
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from counterpose_core.errors import BadBackendOutput, InvalidRequest
from counterpose_core.secret_files import read_secret
from counterpose_core.text.caption_diff import parse_variations
from counterpose_core.types import EDIT_TYPES
from counterpose_services.openai_api.server import OpenAIServer
from counterpose_services.outbound.calls import AnswerLimits, outbound_client
from counterpose_services.perturber.pairs import CaptionPair, append_pairs, rewrite_whole_lines
from counterpose_services.perturber.prompt_file import read_prompts
from counterpose_services.perturber.prompts import OURS, Instruction, Prompts

PAIRS_AN_INSTRUCTION = 100
EDITS_A_CAPTION = 5
LIMITS = AnswerLimits(seconds=120.0, most_bytes=2**20)
_DOMAIN_OPENING = "a photo of "

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Assistant:
    """A model that chats at a server, and its sampling settings."""

    server: OpenAIServer
    model: str
    temperature: float = 1.0
    max_tokens: int = 400

    def answer(self, prompt: str, *, seed: int) -> str:
        """Return the reply to one message; raises as `OpenAIServer.chat` does."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": seed,
        }
        said = self.server.chat(body).only.message.content
        if said is None:
            raise BadBackendOutput(f"{self.server.name!r} did not reply with a text")
        return said


def collect(
    captions: Sequence[str],
    assistant: Assistant,
    out: Path,
    *,
    seed: int,
    pairs_an_instruction: int = PAIRS_AN_INSTRUCTION,
    placebo: bool = False,
    prompts: Prompts = OURS,
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
        prompts: the instructions to collect for.
    """
    kept = rewrite_whole_lines(out)
    have = Counter(pair.instruction for pair in kept)
    asked = {(pair.instruction, pair.caption) for pair in kept}
    for instruction in _instructions(prompts, placebo=placebo):
        fresh = [
            text for text in _order(captions, instruction, seed) if (instruction.name, text) not in asked
        ]
        for number, caption in enumerate(fresh):
            missing = pairs_an_instruction - have[instruction.name]
            if missing <= 0:
                break
            pairs = _pairs(assistant, prompts, instruction, caption, seed=seed + number)[:missing]
            append_pairs(out, pairs)
            have[instruction.name] += len(pairs)
        _log.info("%s: %d pairs", instruction.name, have[instruction.name])
    return dict(have)


def _instructions(prompts: Prompts, *, placebo: bool) -> Iterator[Instruction]:
    for kind in (*EDIT_TYPES, *(("placebo",) if placebo else ())):
        yield from prompts.instructions[kind]


def _order(captions: Sequence[str], instruction: Instruction, seed: int) -> list[str]:
    opening = _DOMAIN_OPENING if instruction.perturbation_type == "domain" else ""
    texts = list(dict.fromkeys(_opened(caption, opening) for caption in captions))
    # With one order for all, every instruction would use the same few captions.
    random.Random(f"{seed} {instruction.name}").shuffle(texts)
    return texts


def _opened(caption: str, opening: str) -> str:
    """Name the kind of image, so that a domain edit has a word to change (LANCE, Table 5)."""
    return caption if caption.lower().startswith(opening) else opening + caption


def _pairs(
    assistant: Assistant, prompts: Prompts, instruction: Instruction, caption: str, *, seed: int
) -> list[CaptionPair]:
    asked = prompts.collection_prompt(instruction, caption, wanted=EDITS_A_CAPTION)
    reply = assistant.answer(asked, seed=seed)
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
    parser = argparse.ArgumentParser(prog="python -m counterpose_services.perturber.collect")
    parser.add_argument("--captions", type=Path, required=True, help="text file, one caption per line")
    parser.add_argument("--out", type=Path, required=True, help="JSONL file of pairs; appended to")
    parser.add_argument("--base-url", required=True, help="OpenAI-compatible endpoint, including /v1")
    parser.add_argument("--model", required=True)
    parser.add_argument("--api-key-file", type=Path, default=None)
    parser.add_argument("--pairs", type=int, default=PAIRS_AN_INSTRUCTION, help="pairs per instruction")
    parser.add_argument("--placebo", action="store_true", help="collect placebos too")
    parser.add_argument("--prompts", type=Path, default=None, help="TOML file of prompts; default: ours")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    captions = [
        line.strip() for line in options.captions.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    if not captions:
        raise InvalidRequest(f"{options.captions.name!r} has no caption; write one per line")
    key = None
    if options.api_key_file is not None:
        key = read_secret(options.api_key_file, variable="--api-key-file")
    prompts = OURS if options.prompts is None else read_prompts(options.prompts)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with outbound_client(LIMITS) as client:
        server = OpenAIServer(options.base_url, client, limits=LIMITS, in_flight=1, key=key)
        collect(
            captions, Assistant(server, options.model), options.out, seed=options.seed,
            pairs_an_instruction=options.pairs, placebo=options.placebo, prompts=prompts,
        )  # fmt: skip


if __name__ == "__main__":
    main()
