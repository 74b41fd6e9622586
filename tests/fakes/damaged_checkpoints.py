"""Ways to damage a user's checkpoint in its folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from fakes.tiny_classifiers import CLASSES


def write_config(text: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "config.json").write_text(text, encoding="utf-8")

    return spoil


def write_class_map(text: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "class_map.json").write_text(text, encoding="utf-8")

    return spoil


def break_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\x80\x02pickle")


def pickle_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def fewer_classes(folder: Path) -> None:
    (folder / "class_map.json").write_text(json.dumps(CLASSES[:3]), encoding="utf-8")


def name_classes(*names: str) -> Callable[[Path], None]:
    return write_class_map(json.dumps(names))


def spoil_weight(name: str, value: float) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors[name].flatten()[0] = value
        save_file(tensors, folder / "model.safetensors")

    return spoil


def reshape_weight(name: str, shape: tuple[int, ...]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        save_file(tensors | {name: torch.zeros(shape)}, folder / "model.safetensors")

    return spoil


def long_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes((2**63).to_bytes(8, "little") + b"{}")


def no_class_map(folder: Path) -> None:
    (folder / "class_map.json").unlink()


def configured(**changes: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")

    return spoil
