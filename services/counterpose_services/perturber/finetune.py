"""Fine-tunes a LLaMA-class model into a perturber: LoRA on query, key and value of every layer.

    python -m counterpose_services.perturber.finetune --model FOLDER --pairs pairs.jsonl --out DIR

If it is stopped and started again, it continues from its last checkpoint and ends in the same adapter.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

# Before anything that imports torchvision.
from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase

from counterpose_core.errors import InvalidRequest
from counterpose_services.models.model_folder import require_safetensors
from counterpose_services.models.tokenizers import load_tokenizer
from counterpose_services.perturber.pairs import CaptionPair, read_pairs
from counterpose_services.perturber.prompt_file import read_prompts
from counterpose_services.perturber.prompts import OURS, Prompts, PromptStyle

_CHECKPOINT = "checkpoint.pt"
# The label that torch's cross-entropy ignores.
_IGNORED = -100

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FinetuneRecipe:
    """Everything that a fine-tuning depends on, apart from the data and the seed.

    A micro-step reads `batch / accumulation` examples; every `accumulation` micro-steps update the weights.
    """

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.05
    target_modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    learning_rate: float = 3e-4
    batch: int = 128
    accumulation: int = 32
    weight_decay: float = 0.0
    max_length: int = 1024
    micro_steps: int = 37_500
    prompt: PromptStyle = "instruction"

    def __post_init__(self) -> None:
        if self.batch % self.accumulation:
            raise InvalidRequest(
                f"batch {self.batch!r} is not a multiple of accumulation {self.accumulation!r}"
            )

    @property
    def micro_batch(self) -> int:
        """Number of examples per micro-step."""
        return self.batch // self.accumulation


PRESETS: dict[str, FinetuneRecipe] = {
    # LANCE, Table 6 and section 4.1. Table 6 puts one rank-8 product on the three matrices joined; PEFT puts
    # one on each.
    "lance": FinetuneRecipe()
}


@dataclass(frozen=True)
class Example:
    """Token ids and labels of a prompt and its answer; the prompt's labels are -100."""

    ids: list[int]
    labels: list[int]


def examples_of(
    pairs: Sequence[CaptionPair],
    tokenizer: PreTrainedTokenizerBase,
    recipe: FinetuneRecipe,
    prompts: Prompts = OURS,
) -> list[Example]:
    """Turn pairs into examples, cut at `max_length` tokens.

    Under `instruction`, all edits of a caption form one answer with an edit per line, as in serving; under
    `compact`, each edit is an answer.
    """
    examples = []
    for prompt, answer in _dialogues(pairs, recipe.prompt, prompts):
        given = list(tokenizer(prompt).input_ids)
        # Without the end token, the model would never learn to stop.
        said = [*tokenizer(answer, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
        ids = (given + said)[: recipe.max_length]
        examples.append(Example(ids, ([_IGNORED] * len(given) + said)[: recipe.max_length]))
    return examples


def _dialogues(pairs: Sequence[CaptionPair], style: PromptStyle, prompts: Prompts) -> list[tuple[str, str]]:
    if style == "compact":
        asked = [prompts.asked(style, pair.perturbation_type, pair.caption) for pair in pairs]
        return [(str(one), pair.edited_caption) for (one,), pair in zip(asked, pairs, strict=True)]
    named = {one.name: one for found in prompts.instructions.values() for one in found}
    answers: dict[tuple[str, str], list[str]] = {}
    for pair in pairs:
        if pair.instruction not in named:
            raise InvalidRequest(
                f"there is no instruction {pair.instruction!r}; choose one of {sorted(named)}"
            )
        answers.setdefault((pair.instruction, pair.caption), []).append(pair.edited_caption)
    return [
        (prompts.instruction_prompt(named[name], caption), "\n".join(edits))
        for (name, caption), edits in answers.items()
    ]


class Finetuning:
    """A fine-tuning in progress: the adapted model, its optimizer and its step."""

    def __init__(
        self, model: PeftModel, examples: Sequence[Example], recipe: FinetuneRecipe, *, seed: int
    ) -> None:
        if not examples:
            raise InvalidRequest("there are no caption pairs to train on; collect some first")
        self.model, self.step = model, 0
        self._examples, self._recipe, self._seed = examples, recipe, seed
        wanted = [value for value in model.parameters() if value.requires_grad]
        self._optimizer = torch.optim.AdamW(wanted, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)

    def update(self) -> float:
        """Read one batch in micro-steps and update the weights once; return the mean loss."""
        total = 0.0
        for _ in range(self._recipe.accumulation):
            total += self._micro_step()
            self.step += 1
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return total / self._recipe.accumulation

    def _micro_step(self) -> float:
        with torch.random.fork_rng():
            # Dropout uses the global generator. Seeded by step, a resumed run equals an uninterrupted one.
            # The factor is a prime above any number of steps, so no two seeds share a draw.
            torch.manual_seed(self._seed * 1_000_003 + self.step)
            rows = torch.randint(len(self._examples), (self._recipe.micro_batch,)).tolist()
            batch = _batch([self._examples[row] for row in rows], self.model.device)
            loss = self.model(**batch).loss
            (loss / self._recipe.accumulation).backward()
        return float(loss.detach())

    def save(self, file: Path) -> None:
        """Write all that a restart needs, and replace the file atomically."""
        part = file.with_name(f"{file.name}.part")
        weights = get_peft_model_state_dict(self.model)
        torch.save({"step": self.step, "weights": weights, "optimizer": self._optimizer.state_dict()}, part)
        part.replace(file)

    def restore(self, file: Path) -> None:
        """Restore a saved state."""
        # An optimizer's state cannot be safetensors; `weights_only` keeps the pickle from running code.
        state = torch.load(file, weights_only=True)
        set_peft_model_state_dict(self.model, state["weights"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.step = int(state["step"])


def _batch(examples: Sequence[Example], device: torch.device) -> dict[str, torch.Tensor]:
    """Pad examples on the right; padding is masked, so its id does not matter."""
    length = max(len(one.ids) for one in examples)
    ids = [one.ids + [0] * (length - len(one.ids)) for one in examples]
    labels = [one.labels + [_IGNORED] * (length - len(one.ids)) for one in examples]
    mask = [[1] * len(one.ids) + [0] * (length - len(one.ids)) for one in examples]
    columns = {"input_ids": ids, "labels": labels, "attention_mask": mask}
    return {name: torch.tensor(rows, device=device) for name, rows in columns.items()}


def finetune(
    model_folder: Path,
    pairs: Sequence[CaptionPair],
    out: Path,
    recipe: FinetuneRecipe,
    *,
    seed: int,
    device: str = "cpu",
    dtype: str = "float32",
    checkpoint_every: int = 20,
    prompts: Prompts = OURS,
) -> float:
    """Train an adapter on a local LLaMA folder and save it in PEFT's format; return the last loss.

    Micro-steps at the end that do not fill a batch are left out.

    Args:
        model_folder: the base, as safetensors; it is not changed.
        pairs: captions and their edits.
        out: folder for the adapter and the checkpoint.
        recipe: rank, rates, lengths and steps.
        seed: determines the adapter's initial weights and the order of pairs.
        device: the device of the model, such as ``cuda:0``.
        dtype: the precision of the base.
        checkpoint_every: updates between two checkpoints.
        prompts: the instructions that the model learns to follow, and their frame.
    """
    require_safetensors(model_folder)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = load_tokenizer(model_folder)
    run = Finetuning(
        _adapted(model_folder, recipe, seed=seed, device=device, dtype=dtype),
        examples_of(pairs, tokenizer, recipe, prompts), recipe, seed=seed,
    )  # fmt: skip
    if (out / _CHECKPOINT).exists():
        run.restore(out / _CHECKPOINT)
    loss = float("nan")
    updates = recipe.micro_steps // recipe.accumulation
    for number in range(run.step // recipe.accumulation, updates):
        loss = run.update()
        _log.info("update %d of %d: loss %.4f", number + 1, updates, loss)
        if (number + 1) % checkpoint_every == 0 or number + 1 == updates:
            run.save(out / _CHECKPOINT)
    _publish(run.model, out, recipe, seed=seed, pairs=len(pairs))
    return loss


def _adapted(folder: Path, recipe: FinetuneRecipe, *, seed: int, device: str, dtype: str) -> PeftModel:
    base = AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, use_safetensors=True, dtype=getattr(torch, dtype)
    ).to(device)
    settings = LoraConfig(
        r=recipe.rank, lora_alpha=recipe.alpha, lora_dropout=recipe.dropout,
        target_modules=list(recipe.target_modules), task_type="CAUSAL_LM",
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = get_peft_model(base, settings)
    model.train()
    return model


def _publish(model: PeftModel, out: Path, recipe: FinetuneRecipe, *, seed: int, pairs: int) -> None:
    model.save_pretrained(str(out))
    about = {"recipe": asdict(recipe), "seed": seed, "pairs": pairs}
    (out / "finetune.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Fine-tune by a preset; options replace single values of it."""
    parser = argparse.ArgumentParser(prog="python -m counterpose_services.perturber.finetune")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="lance")
    parser.add_argument(
        "--model", type=Path, required=True, help="folder of a LLaMA-class model, safetensors"
    )
    parser.add_argument("--pairs", type=Path, required=True, help="JSONL of caption pairs")
    parser.add_argument("--out", type=Path, required=True, help="folder of the adapter")
    parser.add_argument("--micro-steps", type=int, default=None)
    parser.add_argument("--accumulation", type=int, default=None, help="micro-steps per update")
    parser.add_argument("--prompt", choices=("instruction", "compact"), default=None)
    parser.add_argument("--prompts", type=Path, default=None, help="TOML file of prompts; default: ours")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    given = {name: getattr(options, name) for name in ("micro_steps", "accumulation", "prompt")}
    changes = {name: value for name, value in given.items() if value is not None}
    recipe = replace(PRESETS[options.preset], **changes)
    finetune(
        options.model, read_pairs(options.pairs), options.out, recipe, seed=options.seed,
        device=options.device, dtype=options.dtype,
        prompts=OURS if options.prompts is None else read_prompts(options.prompts),
    )  # fmt: skip


if __name__ == "__main__":
    main()
