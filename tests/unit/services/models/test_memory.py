"""The memory of a service, counted from headers and configurations."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from counterpose_core.suite import EditorSuite, load_suite
from counterpose_services.models.inventory import (
    LIBRARIES_BYTES,
    SIZES,
    allowance_bytes,
    models_of,
    weights_bytes,
)
from counterpose_services.models.model_folder import weight_files
from counterpose_services.models.preflight import device_bytes
from counterpose_services.service_options import Precision
from counterpose_services.settings import ServiceSettings
from fakes.suite_servers import SERVERS

GIB = 2**30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """1000 numbers that compute, stored in float32, and 10 indices."""
    tensors: dict[str, np.ndarray[Any, Any]] = {
        "w": np.zeros((10, 100), np.float32),
        "ids": np.zeros(10, np.int64),
    }
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(("dtype", "expected"), [("float32", 4080), ("float16", 2080), ("bfloat16", 2080)])
def test_weights_count_in_the_precision_that_computes(folder: Path, dtype: Precision, expected: int) -> None:
    assert weights_bytes(weight_files(folder), dtype) == expected


def test_a_further_copy_in_half_precision_is_not_counted(folder: Path) -> None:
    save_file({"w": np.zeros(1000, np.float16)}, folder / "model.fp16.safetensors")
    assert weights_bytes(weight_files(folder), "float32") == 4080


def test_only_the_unet_of_an_editor_takes_half_precision(tmp_path: Path) -> None:
    for part in ("unet", "vae", "text_encoder"):
        (tmp_path / "editor" / part).mkdir(parents=True)
        save_file({"w": np.zeros(100, np.float32)}, tmp_path / "editor" / part / "model.safetensors")
    for file in ("scheduler/scheduler_config.json", "tokenizer/tokenizer.json"):
        (tmp_path / "editor" / file).parent.mkdir()
        (tmp_path / "editor" / file).write_text("{}", encoding="utf-8")
    (tmp_path / "preview").mkdir()
    save_file({"w": np.zeros(7, np.float32)}, tmp_path / "preview" / "model.safetensors")
    given = {"suite_root": tmp_path, "state_dir": tmp_path, "dtype": "float16"}
    found = models_of("editor", load_suite("miniature"), ServiceSettings.model_validate(given))
    assert [model.weights_bytes for model in found] == [2 * 100 + 4 * 200, 4 * 7]


def test_keys_and_values_are_counted_from_the_configuration(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    suite = load_suite("miniature")
    # Two heads of 16 numbers, keys and values, in three layers; the prompt has up to 160 tokens.
    expected = suite.perturber.batch * (160 + suite.perturber.max_new_tokens) * (2 * 3 * 2 * 16) * 2
    assert allowance_bytes("perturber", suite, "float16", tmp_path) == LIBRARIES_BYTES + expected


def test_the_paper_s_models_fit_one_a100_in_half_precision() -> None:
    given = ServiceSettings.model_validate({"suite": "lance", "device": "cuda", "suite_root": "/nowhere"})
    suite, needed = load_suite("lance"), 0
    for service in ("captioner", "perturber", "editor", "scorer"):
        dtype = given.of(service).dtype
        needed += sum(model.weights_bytes or 0 for model in models_of(service, suite, given))
        needed += allowance_bytes(service, suite, dtype, None)
    assert 35 * GIB < needed < 45 * GIB


def test_a_half_as_large_image_needs_a_quarter_of_the_editor_s_allowance() -> None:
    large = load_suite("lance")
    small = large.model_copy(update={"editor_part": large.editor.model_copy(update={"resolution": 256})})
    whole, part = (
        allowance_bytes("editor", each, "float32", None) - LIBRARIES_BYTES for each in (large, small)
    )
    assert whole == 3 * GIB == 4 * part


def test_a_gradient_counts_where_a_suite_inverts_by_it_or_learns_tokens() -> None:
    lance = load_suite("lance")
    quick = {"presets": {"quick": lance.editor.presets["quick"]}, "default_preset": "quick"}
    tuning_free = lance.editor.model_copy(update=quick)
    learning = EditorSuite.model_validate(
        tuning_free.model_dump(exclude_unset=True) | {"textual_inversion": {"steps": 9}}
    )
    needed = [
        allowance_bytes("editor", lance.model_copy(update={"editor_part": editor}), "float16", None)
        for editor in (lance.editor, learning, tuning_free)
    ]
    # 4096 positions with a gradient in half precision, or 512 x 512 pixels in float32.
    assert needed == [LIBRARIES_BYTES + 3 * GIB // 2] * 2 + [LIBRARIES_BYTES + GIB]


@pytest.mark.parametrize("suite", ["lance", "dataset-interfaces", "sdxl"])
def test_every_model_of_a_paper_suite_has_a_known_size_but_the_adapter(suite: str) -> None:
    given = ServiceSettings.model_validate({"suite": suite, "suite_root": "/nowhere"})
    loaded = load_suite(suite)
    names = [
        model.name
        for service in ("captioner", "perturber", "editor", "scorer")
        for model in models_of(service, loaded, given)
    ]
    assert set(names) - set(SIZES) <= {"lance/lora"}


def test_this_machine_has_memory() -> None:
    (available,) = device_bytes("cpu")
    assert GIB // 4 < available < 2**50


def test_cuda_is_every_gpu_and_an_index_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: SimpleNamespace(total_memory=index + 1)
    )
    assert device_bytes("cuda") == [1, 2, 3]
    assert device_bytes("cuda:1") == [2]


def test_models_at_servers_of_others_take_no_memory_of_this_machine() -> None:
    suite = load_suite("api", SERVERS)
    for service in ("captioner", "perturber", "editor"):
        assert allowance_bytes(service, suite, "float32", None) == LIBRARIES_BYTES
