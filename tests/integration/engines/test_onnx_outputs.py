"""What the numbers of an ONNX network are: told from its graph and its answers, as declared, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifyRequest
from counterpose_core.errors import ModelFormatRefused
from counterpose_core.images.codecs import encode_raw
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from evaluation.reference.same_answers import FLOAT32
from fakes.tiny_models.onnx import DESCRIPTION, save_onnx
from fakes.tiny_models.timm import SIDE

CLASSES = ("boat", "tram", "sled")
DOMAIN = "mine"


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def graph(
    *end: NodeProto, batch: int | str = "n", columns: int = len(CLASSES), functions: Sequence[Any] = ()
) -> onnx.ModelProto:
    """Mean colours times a matrix, the logits ``l``, and then ``end``, whose last output is ``y``."""
    weights = np.random.default_rng(0).normal(size=(3, columns)).astype(np.float32) * 3
    shape = [0, columns] if isinstance(batch, str) else [batch, columns]
    constants = {
        "weights": weights, "shape": np.array(shape), "one": np.float32(1.0), "last": np.array([-1]),
        "axis": np.array([1]),
    }  # fmt: skip
    made = helper.make_graph(
        [
            node("GlobalAveragePool", "x", "p"),
            node("Flatten", "p", "f"),
            node("MatMul", "f weights", "l"),
            *end,
        ],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, columns])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(made, opset_imports=domains, ir_version=9, functions=list(functions))


SOFTMAX_FUNCTION = helper.make_function(
    DOMAIN, "Head", ["a"], ["b"], [node("Softmax", "a", "s", axis=1), node("Identity", "s", "b")],
    [helper.make_opsetid("", 17)],
)  # fmt: skip
LOGITS = graph(node("Identity", "l", "y"))
PROBABILITIES = {
    "a softmax": graph(node("Softmax", "l", "y", axis=1)),
    "a softmax and an identity": graph(node("Softmax", "l", "s"), node("Identity", "s", "y")),
    "a softmax that is reshaped": graph(node("Softmax", "l", "s"), node("Reshape", "s shape", "y")),
    "a softmax of half precision": graph(
        node("Cast", "l", "h", to=TensorProto.FLOAT16), node("Softmax", "h", "s"),
        node("Cast", "s", "y", to=TensorProto.FLOAT),
    ),
    "a softmax within a function": graph(
        helper.make_node("Head", ["l"], ["y"], domain=DOMAIN), functions=[SOFTMAX_FUNCTION]
    ),
    "a softmax of a fixed batch of one": graph(node("Softmax", "l", "y"), batch=1),
    "a softmax of a fixed batch of four": graph(node("Softmax", "l", "y"), batch=4),
    "a softmax in parts": graph(
        node("Exp", "l", "e"), node("ReduceSum", "e last", "t", keepdims=1), node("Div", "e t", "y")
    ),
}  # fmt: skip
SIGMOIDS = {
    "a sigmoid": graph(node("Sigmoid", "l", "y")),
    "a hard sigmoid": graph(node("HardSigmoid", "l", "y")),
    "a sigmoid and an identity": graph(node("Sigmoid", "l", "s"), node("Identity", "s", "y")),
    "a sigmoid within a shape": graph(node("Sigmoid", "l", "s"), node("Reshape", "s shape", "y")),
}


def scores(
    root: Path, model: onnx.ModelProto, output: str | None, name: str = "mine"
) -> np.ndarray[Any, Any]:
    described = DESCRIPTION if output is None else DESCRIPTION | {"output": output}
    columns = model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
    save_onnx(root / "models" / name, CLASSES[:columns], model, described)
    store = BlobStore(str(root / "store"))
    options = ClassifierOptions(models_folder=root / "models")
    engine = ClassifiersEngine.load(ClassifiersSuite(batch=2), root / "none", store, options)
    colours = ((220, 90, 30), (10, 200, 90), (30, 30, 30))
    images = [store.put(encode_raw(np.full((20, 20, 3), colour, np.uint8))) for colour in colours]
    request = ClassifyRequest(classifier=f"local:{name}", images=images, classes=list(CLASSES[:columns]))
    return np.array([outcome.unwrap().probabilities for outcome in engine.classify(request).outcomes])


@pytest.mark.parametrize("output", [None, "probabilities"])
@pytest.mark.parametrize("end", PROBABILITIES)
def test_probabilities_stay_what_they_are(end: str, output: str | None, tmp_path: Path) -> None:
    found = scores(tmp_path, PROBABILITIES[end], output)
    assert found == pytest.approx(scores(tmp_path, LOGITS, None, "logits"), abs=2e-3)
    assert found.max() > 0.6


@pytest.mark.parametrize("end", PROBABILITIES)
def test_probabilities_that_are_declared_as_logits_are_refused(end: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFormatRefused, match="returns probabilities where logits were expected"):
        scores(tmp_path, PROBABILITIES[end], "logits")


@pytest.mark.parametrize("output", [None, "probabilities", "logits"])
@pytest.mark.parametrize("end", SIGMOIDS)
def test_a_graph_whose_scores_judge_each_class_alone_is_refused(
    end: str, output: str | None, tmp_path: Path
) -> None:
    with pytest.raises(
        ModelFormatRefused, match=r"ends in a (Hard)?Sigmoid, whose scores judge each class alone"
    ):
        scores(tmp_path, SIGMOIDS[end], output)


@pytest.mark.parametrize("output", [None, "logits"])
@pytest.mark.parametrize(
    "end",
    [
        [node("Identity", "l", "y")],
        [node("LogSoftmax", "l", "y", axis=1)],
        [node("Softmax", "l", "s", axis=1), node("Log", "s", "y")],
    ],
    ids=["logits", "the logarithm of a softmax", "a logarithm after a softmax"],
)
def test_logits_and_log_probabilities_get_one_softmax(
    end: list[NodeProto], output: str | None, tmp_path: Path
) -> None:
    found = scores(tmp_path, graph(*end), output)
    assert found == pytest.approx(scores(tmp_path, LOGITS, None, "plain"), abs=FLOAT32)


@pytest.mark.parametrize("end", ["Identity", "Sigmoid", "Softmax"])
def test_a_graph_of_one_output_is_refused(end: str, tmp_path: Path) -> None:
    with pytest.raises(
        ModelFormatRefused, match="the head of 'local:mine' has one output, a yes-or-no score"
    ):
        scores(tmp_path, graph(node(end, "l", "y"), columns=1), None)
