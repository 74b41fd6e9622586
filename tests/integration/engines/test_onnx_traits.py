"""The parameter count and image size read from an ONNX file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime.quantization as quantization
import pytest
from onnx import TensorProto, helper, numpy_helper

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.classifiers import ClassifierDescription
from counterpose_core.suite import ClassifiersSuite
from counterpose_services.classifiers import stored_traits as reading
from counterpose_services.classifiers.engine import ClassifiersEngine
from counterpose_services.classifiers.options import ClassifierOptions
from counterpose_services.classifiers.stored_traits import FileTraits, onnx_traits
from counterpose_services.classifiers.timm_folder import load_folder
from fakes.tiny_models.onnx import DESCRIPTION, exported, linear_graph, save_onnx
from fakes.tiny_models.timm import SIDE, save_timm
from fakes.tiny_models.weights import randomised

CLASSES = ("boat", "tram", "sled", "night", "sea")


def listed(models: Path) -> ClassifierDescription:
    options = ClassifierOptions(models_folder=models)
    store = BlobStore(str(models.parent / "store"))
    engine = ClassifiersEngine.load(ClassifiersSuite(), models.parent / "no-suite", store, options)
    (found,) = engine.list_classifiers().classifiers
    return found


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A network as torch exports it, and the number of its parameters in torch."""
    folder = tmp_path_factory.mktemp("exported")
    # Without batch norms, which an export folds into the preceding weights.
    save_timm(folder / "torch", CLASSES, architecture="test_convnext")
    # No two tensors may be equal: the exporter keeps only one of such a pair.
    module = randomised(load_folder(folder / "torch", "torch").module, seed=0, spread=0.2)
    exported(module, folder / "made.onnx", open_batch=True)
    return folder / "made.onnx", sum(parameter.numel() for parameter in module.parameters())


def test_an_exported_network_keeps_its_parameter_count(network: tuple[Path, int], tmp_path: Path) -> None:
    file, parameters = network
    config = DESCRIPTION | {"architecture": "test_convnext"}
    config["pretrained_cfg"] = DESCRIPTION["pretrained_cfg"] | {"tag": "ours"}
    save_onnx(tmp_path / "models" / "mine", CLASSES, file.read_bytes(), config)
    found = listed(tmp_path / "models")
    assert (found.parameters, found.resolution) == (parameters, SIDE)
    assert (found.architecture, found.training) == ("test_convnext", "ours")


def test_the_graph_gives_the_size_if_the_configuration_does_not(tmp_path: Path) -> None:
    described = {key: value for key, value in DESCRIPTION["pretrained_cfg"].items() if key != "input_size"}
    save_onnx(tmp_path / "models" / "mine", CLASSES, None, {"pretrained_cfg": described})
    found = listed(tmp_path / "models")
    assert (found.architecture, found.parameters, found.resolution) == ("onnx", 3 * len(CLASSES), SIDE)


def test_a_file_is_read_again_only_after_it_changes(tmp_path: Path) -> None:
    file, graph = tmp_path / "m.onnx", linear_graph(5)
    file.write_bytes(graph.SerializeToString())
    kept = reading._traits.cache_info().misses
    assert [onnx_traits(file) for _ in range(3)] == 3 * [FileTraits(15, SIDE)]
    assert reading._traits.cache_info().misses == kept + 1
    graph.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((3, 9), np.float32), "weights"))
    file.write_bytes(graph.SerializeToString())
    assert onnx_traits(file).parameters == 27


def test_weights_in_a_data_file_are_counted_without_reading_it(
    network: tuple[Path, int], tmp_path: Path
) -> None:
    file, parameters = network
    model = onnx.load(file)
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="w.data", size_threshold=0)
    (tmp_path / "w.data").unlink()
    assert onnx_traits(tmp_path / "model.onnx").parameters == parameters


def test_weights_of_constant_nodes_are_counted(tmp_path: Path) -> None:
    graph = linear_graph(5)
    weights = graph.graph.initializer.pop()
    constant = helper.make_node("Constant", [], ["weights"], value=weights)
    graph.graph.node.insert(0, constant)
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    assert onnx_traits(tmp_path / "m.onnx") == FileTraits(15, SIDE)


def test_parameters_of_a_quantised_network_are_not_counted(network: tuple[Path, int], tmp_path: Path) -> None:
    quantization.quantize_dynamic(str(network[0]), str(tmp_path / "small.onnx"))
    found = onnx_traits(tmp_path / "small.onnx")
    assert found == FileTraits(None, SIDE)


def test_batch_norm_statistics_and_scalars_are_not_parameters(tmp_path: Path) -> None:
    graph = linear_graph(5)
    for name, values in (("bn.running_mean", np.zeros(9, np.float32)), ("scale", np.float32(2))):
        graph.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    assert onnx_traits(tmp_path / "m.onnx").parameters == 15


def test_dynamic_sizes_and_several_inputs_give_no_resolution(tmp_path: Path) -> None:
    several = linear_graph(5)
    several.graph.input.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 8, 8]))
    for number, graph in enumerate((linear_graph(5, side="s"), several)):
        (tmp_path / f"{number}.onnx").write_bytes(graph.SerializeToString())
        assert onnx_traits(tmp_path / f"{number}.onnx") == FileTraits(15, None)


def test_a_weight_listed_as_an_input_is_not_an_image(tmp_path: Path) -> None:
    # Files of old versions list every weight among the inputs.
    graph = linear_graph(5)
    graph.graph.input.append(helper.make_tensor_value_info("weights", TensorProto.FLOAT, [3, 5]))
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    assert onnx_traits(tmp_path / "m.onnx") == FileTraits(15, SIDE)


@pytest.mark.fault("B43")
def test_a_damaged_file_has_no_traits(network: tuple[Path, int], tmp_path: Path) -> None:
    content, file = network[0].read_bytes(), tmp_path / "m.onnx"
    for bad in (b"", b"rubbish", content[:-1], content[: len(content) // 2], b"\x3a\xff\xff\xff\xff\xff" * 9):
        file.write_bytes(bad)
        assert onnx_traits(file) == FileTraits()
    assert onnx_traits(tmp_path / "absent.onnx") == FileTraits()


def test_sparse_weights_are_not_counted(tmp_path: Path) -> None:
    graph = linear_graph(5)
    values = numpy_helper.from_array(np.ones(2, np.float32), "sparse")
    places = numpy_helper.from_array(np.array([0, 3], np.int64), "places")
    graph.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [9]))
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    assert onnx_traits(tmp_path / "m.onnx") == FileTraits(None, SIDE)


def test_invalid_shapes_are_not_counted(tmp_path: Path) -> None:
    graph = linear_graph(5)
    graph.graph.initializer[0].dims[:] = [-3, 5]
    (tmp_path / "m.onnx").write_bytes(graph.SerializeToString())
    assert onnx_traits(tmp_path / "m.onnx").parameters is None


@pytest.mark.fault("B43")
def test_a_file_too_large_to_run_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.onnx").write_bytes(linear_graph(5).SerializeToString())
    monkeypatch.setattr(reading, "LARGEST_BYTES", 10)
    assert onnx_traits(tmp_path / "m.onnx") == FileTraits()
