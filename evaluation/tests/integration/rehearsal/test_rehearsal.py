"""`make rehearse` on shrunk architectures: their files load by our code, and each service answers on them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from counterpose_core import torchvision_operators  # noqa: F401

# isort: split
import torch
from safetensors import safe_open
from transformers import PreTrainedModel

from counterpose_core.suite import Suite
from counterpose_services.models.inventory import SIZES
from counterpose_services.serving.engine_trial import try_service
from evaluation.benchmarks.machine import this_machine
from evaluation.rehearsal import rehearsing
from evaluation.rehearsal.cases import CASES, Case, chosen, suite_toml
from evaluation.rehearsal.command import parsed
from evaluation.rehearsal.random_weights import Spec, drawn, specs_of, write_network
from evaluation.rehearsal.rehearsing import Options, rehearse
from evaluation.rehearsal.report import Memory, read_report, write_row
from evaluation.rehearsal.repositories import Network, Repository

SIDE = 64
# The other scorer loads by the same code.
SHRUNK = [case for case in CASES if case.name != "scorer-vit-h-14"]


def written(case: Case, folder: Path) -> tuple[Suite, list[Repository]]:
    """The case's shrunk models and its suite, in a folder."""
    repositories = list(case.writers("tiny"))
    for repository in repositories:
        repository.write(folder / "models")
    suite = case.tailored(1, SIDE)
    (folder / "suite.toml").write_text(suite_toml(suite), encoding="utf-8")
    return suite, repositories


@pytest.mark.parametrize("case", SHRUNK, ids=lambda case: case.name)
def test_each_service_loads_the_published_layout_and_answers(case: Case, tmp_path: Path) -> None:
    suite, repositories = written(case, tmp_path)
    assert Suite.model_validate(tomllib.loads((tmp_path / "suite.toml").read_text())) == suite
    settings = rehearsing._settings(case, Options(tmp_path), tmp_path, [one.place for one in repositories])
    trial = try_service(case.service, settings)
    assert trial.problem is None
    files = list((tmp_path / "models").rglob("*.safetensors"))
    assert len(files) >= sum(len(repository.networks) for repository in repositories)


def networks() -> list[Network]:
    return [
        network for case in CASES for repository in case.writers("tiny") for network in repository.networks
    ]


def test_the_written_names_are_those_that_transformers_saves(tmp_path: Path) -> None:
    saved = 0
    for number, network in enumerate(networks()):
        model: Any = network.published.build()
        if isinstance(model, PreTrainedModel):
            model.to(network.stored).save_pretrained(tmp_path / str(number))
            with safe_open(tmp_path / str(number) / "model.safetensors", framework="pt") as opened:
                theirs = {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
            ours = {spec.name.removeprefix(network.prefix): spec.shape for spec in network.specs()}
            assert ours == theirs
            saved += 1
    assert saved >= 8


def test_published_sizes_are_those_of_the_built_networks() -> None:
    [case] = chosen("editor-sdxl")
    row = rehearsing._unmeasured(case, Options(Path()), case.writers("published"))
    expected = SIZES["stabilityai/stable-diffusion-xl-base-1.0"].weights_bytes("bfloat16")
    assert row.memory.computed == expected


def test_shards_have_an_index_and_hold_every_tensor_once(tmp_path: Path) -> None:
    specs = [Spec(f"layers.{number}.weight", (4, 8), torch.float16) for number in range(5)]
    generator = torch.Generator().manual_seed(0)
    total = write_network(tmp_path, "model.safetensors", specs, generator, shard_bytes=130)
    assert total == 5 * 64
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    found: dict[str, tuple[str, torch.Tensor]] = {}
    for file in sorted(tmp_path.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            found |= {name: (file.name, opened.get_tensor(name)) for name in opened.keys()}  # noqa: SIM118
    assert {name: place for name, (place, _) in found.items()} == index["weight_map"]
    assert len(set(index["weight_map"].values())) == 3
    assert len({tuple(tensor.flatten().tolist()) for _, tensor in found.values()}) == 5
    again = drawn(specs[0], torch.Generator().manual_seed(0))
    assert torch.equal(found["layers.0.weight"][1], again)


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [("norm.weight", (3,), 1.0), ("norm.bias", (3,), 0.0), ("bn.running_var", (3,), 1.0)],
)
def test_scales_are_one_and_biases_zero(name: str, shape: tuple[int, ...], expected: float) -> None:
    made = drawn(Spec(name, shape, torch.float32), torch.Generator())
    assert made.tolist() == [expected] * 3


def test_a_matrix_keeps_the_size_of_its_input() -> None:
    made = drawn(Spec("linear.weight", (256, 400), torch.float32), torch.Generator().manual_seed(1))
    assert float(made.std()) == pytest.approx(400**-0.5, rel=0.05)
    tied = torch.nn.ModuleDict(
        {"a": torch.nn.Linear(2, 2, bias=False), "b": torch.nn.Linear(2, 2, bias=False)}
    )
    tied["b"].weight = tied["a"].weight
    assert [spec.name for spec in specs_of(tied, torch.float16)] == ["a.weight"]


def test_what_does_not_fit_is_counted_and_neither_written_nor_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsing, "device_bytes", lambda device: [2**30])
    [case] = chosen("perturber")
    row = rehearse(case, Options(tmp_path / "work"))
    assert row.problem is not None
    assert row.problem.startswith("counted on the meta device only: needs 1")
    assert row.memory.computed == SIZES["huggyllama/llama-7b"].weights_bytes("bfloat16")
    assert row.memory.own is None
    assert not (tmp_path / "work").exists()


def test_a_case_is_served_by_the_launcher_measured_and_removed(tmp_path: Path) -> None:
    [case] = chosen("scorer-vit-l-14")
    row = rehearse(case, Options(tmp_path / "work", size="tiny", resolution=SIDE))
    assert row.problem is None
    assert row.memory.resident is not None
    assert row.memory.own is not None
    assert row.memory.resident > row.memory.own > 2**27
    assert row.start_seconds is not None
    assert row.start_seconds > 0.0
    assert row.request_seconds is not None
    assert row.request_seconds > 0.0
    assert row.called_bytes is not None
    assert row.called_bytes > row.stored_bytes
    assert not (tmp_path / "work" / case.name).exists()


def test_a_row_replaces_its_own_case_alone(tmp_path: Path) -> None:
    [first], [second] = chosen("perturber"), chosen("captioner")
    out = tmp_path / "rehearsal.json"
    for case, stored in ((first, 1), (second, 2), (first, 3)):
        row = rehearsing._unmeasured(case, Options(Path()), case.writers("tiny"))
        changed = row.model_copy(update={"stored_bytes": stored})
        write_row(changed, this_machine(), 2**34, out, [one.name for one in CASES])
    rows = [(row.case, row.stored_bytes) for row in read_report(out).rows]
    assert rows == [("captioner", 2), ("perturber", 3)]


def test_the_prediction_is_known_only_with_both_parts() -> None:
    assert Memory(computed=1).predicted is None
    assert Memory(computed=1, weights=2, allowance=3).predicted == 5


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["--only", "editor,painter"])
    assert "there is no case 'painter'; choose from" in capsys.readouterr().err
    assert [case.name for case in chosen("editor")] == ["editor-sd14", "editor-sd2", "editor-sdxl"]
