"""Small ONNX networks in the folder format of ``local:`` classifiers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

from fakes.tiny_models.timm import PREPARATION, SIDE

DESCRIPTION: dict[str, Any] = {"pretrained_cfg": PREPARATION}


def linear_graph(
    n_classes: int,
    *,
    batch: int | str | None = "n",
    side: int | str = SIDE,
    opset: int = 17,
    softmax: bool = False,
    element: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """Mean colour times a matrix: GlobalAveragePool, Flatten, Gemm, and Softmax where asked for."""
    weights = np.random.default_rng(0).normal(size=(3, n_classes)).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weights"], ["logits"]),
    ]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["logits"], ["odds"]))
    last = "odds" if softmax else "logits"
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", element, [batch, 3, side, side])],
        [helper.make_tensor_value_info(last, element, [batch, None])],
        [numpy_helper.from_array(weights, "weights")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def save_onnx(
    folder: Path,
    classes: Sequence[str],
    content: onnx.ModelProto | bytes | None = None,
    description: object = DESCRIPTION,
) -> None:
    """Save ``model.onnx``, by default a linear one, ``config.json`` and ``class_map.json``."""
    folder.mkdir(parents=True)
    model = linear_graph(len(classes)) if content is None else content
    written = model if isinstance(model, bytes) else model.SerializeToString()
    (folder / "model.onnx").write_bytes(written)
    (folder / "config.json").write_text(json.dumps(description), encoding="utf-8")
    (folder / "class_map.json").write_text(json.dumps(list(classes)), encoding="utf-8")


def exported(module: torch.nn.Module, file: Path, *, open_batch: bool) -> None:
    """Export a network for images of SIDE pixels, as users do."""
    axes = {"x": {0: "n"}, "y": {0: "n"}} if open_batch else None
    with warnings.catch_warnings():
        # The exporter that needs no further package warns of its deprecation, as do its parts.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (torch.zeros(1, 3, SIDE, SIDE),),
            str(file),
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=axes,
            opset_version=17,
        )
