"""The operator schemas that let torchvision be imported with a torch it was not built for."""

from __future__ import annotations

from pathlib import Path

import torch

from counterpose_core import torchvision_operators  # isort: split

import torchvision  # the import under test


def test_torchvision_imports_and_its_python_transforms_work() -> None:
    resized = torchvision.transforms.functional.resize(torch.zeros(3, 8, 8), [4, 4])
    assert tuple(resized.shape) == (3, 4, 4)


def test_schemas_are_defined_only_if_the_compiled_operators_are_missing() -> None:
    library = torch.library.Library("counterpose_test_absent", "FRAGMENT")
    assert torchvision_operators.define_missing(library, present=False) == ["nms", "qnms"]
    assert hasattr(torch.ops.counterpose_test_absent, "nms")


def test_nothing_is_defined_if_the_operators_are_compiled() -> None:
    library = torch.library.Library("counterpose_test_present", "FRAGMENT")
    assert torchvision_operators.define_missing(library, present=True) == []
    assert not hasattr(torch.ops.counterpose_test_present, "nms")


def test_operators_are_defined_only_if_the_libraries_do_not_load() -> None:
    loads = torchvision_operators.all_load(torchvision_operators.compiled_libraries())
    assert ([] if loads else ["nms", "qnms"]) == torchvision_operators.DEFINED


def test_a_library_built_for_another_torch_does_not_load(tmp_path: Path) -> None:
    broken = tmp_path / "_C.so"
    broken.write_bytes(b"made for another torch")
    assert not torchvision_operators.all_load([broken])


def test_compatible_libraries_load_and_an_empty_list_does_not() -> None:
    assert torchvision_operators.all_load([Path(torch._C.__file__)])
    assert not torchvision_operators.all_load([])
