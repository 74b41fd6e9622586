"""An adapter is taken whole or refused in one sentence, before any weights of its base are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaForCausalLM, PreTrainedModel

from counterpose_core.errors import ModelFormatRefused
from counterpose_core.suite import PerturberSuite
from counterpose_services.perturber.engine import PerturberEngine
from counterpose_services.perturber.fitting_adapter import require_fitting_adapter
from fakes.tiny_models.llama import save_llama

Tensors = dict[str, Tensor]
FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "llama"
    save_llama(folder)
    return folder


def require(adapter: Path, base: Path) -> None:
    require_fitting_adapter(adapter, base, name="lora", base_name="llama")


def changed(
    base: Path, folder: Path, tensors: Callable[[Tensors], Tensors], config: dict[str, Any] | None = None
) -> Path:
    """Write the tiny adapter with other tensors, and with other fields in its configuration."""
    folder.mkdir(exist_ok=True)
    own = json.loads((base / "adapter" / "adapter_config.json").read_text("utf-8"))
    (folder / "adapter_config.json").write_text(json.dumps(own | (config or {})), encoding="utf-8")
    found = load_file(base / "adapter" / "adapter_model.safetensors")
    save_file(tensors(found), folder / "adapter_model.safetensors", metadata={"format": "pt"})
    return folder


def without(part: str) -> Callable[[Tensors], Tensors]:
    return lambda found: {name: each for name, each in found.items() if part not in name}


def renamed(change: Callable[[str], str]) -> Callable[[Tensors], Tensors]:
    return lambda found: {change(name): each for name, each in found.items()}


WHOLE = renamed(lambda name: name)


@pytest.mark.parametrize(
    ("tensors", "config", "told"),
    [
        (without(".layers.1."), {}, r"lacks 'model\.layers\.1\.\S+lora_A\.weight' and 5 more"),
        (without("v_proj"), {}, r"lacks 'model\.layers\.0\.self_attn\.v_proj\S+' and 3 more"),
        (without("0.self_attn.q_proj.lora_B"), {}, r"lacks '\S+q_proj\.lora_B\.weight', which"),
        (WHOLE, {"target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}, r"lacks '\S+o_proj\S+'"),
        (WHOLE, {"use_dora": True}, r"lacks '\S+lora_magnitude_vector\S*'"),
        (WHOLE, {"modules_to_save": ["lm_head"]}, r"lacks 'lm_head\.weight'"),
    ],
)
def test_an_adapter_that_lacks_a_tensor_is_refused_with_its_layer(
    base: Path, tmp_path: Path, tensors: Callable[[Tensors], Tensors], config: dict[str, Any], told: str
) -> None:
    with pytest.raises(ModelFormatRefused, match=told):
        require(changed(base, tmp_path, tensors, config), base)


@pytest.mark.parametrize(
    "config", [{"target_modules": ["q_proj"]}, {"layers_to_transform": [0]}, {"exclude_modules": ["v_proj"]}]
)
def test_tensors_that_the_configuration_does_not_name_are_not_passed_over(
    base: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    with pytest.raises(ModelFormatRefused, match=r"has 'model\.layers\.\S+', which its adapter_config"):
        require(changed(base, tmp_path, WHOLE, config), base)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda name: name.removeprefix("base_model.model."), "holds 'model.layers.0.* begin with"),
        (lambda name: f"_orig_mod.{name}", "holds '_orig_mod.base_model.* begin with"),
        (lambda name: f"module.{name}", "holds 'module.base_model.* begin with"),
        (
            lambda name: name.replace(".weight", ".default.weight"),
            "lora_A.default.weight', which its adapter",
        ),
        (lambda name: name.replace("base_model.model.model.", "base_model.model."), "changes 'layers.0"),
        (lambda name: name.replace("lora_A", "lora_down").replace("lora_B", "lora_up"), "lora_down.weight'"),
    ],
)
def test_an_adapter_of_other_key_names_is_refused_in_one_sentence(
    base: Path, tmp_path: Path, change: Callable[[str], str], told: str
) -> None:
    with pytest.raises(ModelFormatRefused, match=told):
        require(changed(base, tmp_path, renamed(change)), base)


@pytest.mark.parametrize(
    "config",
    [
        {"target_modules": ["query_key_value"]},
        {"target_modules": 5},
        {"r": "two"},
        {"layers_to_transform": [9]},
    ],
)
def test_a_configuration_that_peft_refuses_is_refused_in_one_sentence(
    base: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    with pytest.raises(
        ModelFormatRefused, match=r"PEFT refuses the adapter_config\.json of the adapter 'lora'"
    ):
        require(changed(base, tmp_path, WHOLE, config), base)


def test_a_tensor_of_another_shape_is_refused_with_its_layer(base: Path, tmp_path: Path) -> None:
    flat = changed(base, tmp_path, lambda found: found | {FIRST: torch.zeros(64)})
    with pytest.raises(ModelFormatRefused, match=r"a matrix of 64 in 'model\.layers\.0\.self_attn\.q_proj'"):
        require(flat, base)


def test_an_adapter_folder_without_peft_s_file_is_refused(base: Path, tmp_path: Path) -> None:
    adapter = changed(base, tmp_path, WHOLE)
    (adapter / "adapter_model.safetensors").rename(adapter / "model.safetensors")
    with pytest.raises(ModelFormatRefused, match=r"has no adapter_model\.safetensors"):
        require(adapter, base)


def saved(model: PreTrainedModel, folder: Path, **settings: Any) -> Path:
    adapted = get_peft_model(model, LoraConfig(**{"r": 2, "task_type": "CAUSAL_LM"} | settings))
    adapted.save_pretrained(str(folder))
    return folder


@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`")
@pytest.mark.parametrize(
    "settings",
    [
        {"target_modules": "all-linear"},
        {"target_modules": r".*\.1\.self_attn\.[qv]_proj"},
        {"target_modules": ["q_proj"], "layers_to_transform": [1]},
        {"target_modules": ["q_proj", "v_proj"], "rank_pattern": {"v_proj": 4}},
        {"target_modules": ["q_proj"], "use_dora": True},
        {"target_modules": ["q_proj"], "use_rslora": True, "bias": "lora_only"},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
        {"target_modules": ["q_proj", "embed_tokens"]},
        {"target_modules": ["q_proj"], "init_lora_weights": "gaussian"},
    ],
)
def test_whatever_peft_saves_of_a_lora_is_taken(base: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    require(saved(LlamaForCausalLM.from_pretrained(base), tmp_path / "lora", **settings), base)


def test_an_adapter_of_a_base_whose_matrices_lie_transposed_is_taken(tmp_path: Path) -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=1, n_head=2))
    model.save_pretrained(tmp_path / "gpt2")
    require(
        saved(model, tmp_path / "lora", target_modules=["c_attn"], fan_in_fan_out=True), tmp_path / "gpt2"
    )


def test_the_perturber_refuses_an_adapter_that_lacks_a_layer(base: Path, tmp_path: Path) -> None:
    changed(base, base / "cut", without(".layers.1."))
    suite = PerturberSuite(model="llama", adapter="llama/cut", max_new_tokens=8)
    with pytest.raises(ModelFormatRefused, match=r"'llama/cut' lacks 'model\.layers\.1"):
        PerturberEngine.load(suite, base.parent)
