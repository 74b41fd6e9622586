"""The training command: the order of stages, their output folders and small files."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from counterpose_core.types import Estimate
from counterpose_miniature.training import __main__ as command
from counterpose_miniature.training.figures import mean, share, table
from counterpose_miniature.training.publishing import write_card, write_half
from counterpose_miniature.training.rendered import as_tensor, render_all, step_generator
from counterpose_miniature.training.stage import StageContext
from counterpose_miniature.training.tokenizer import caption_tokenizer
from counterpose_miniature.world import UNIFORM, render, scene_for
from counterpose_miniature.world.seeds import DEVELOPMENT


@dataclass
class Recorder:
    """Replaces every stage's module and records what was trained and where."""

    trained: list[tuple[str, StageContext]] = field(default_factory=list)

    def __call__(self, module: str) -> SimpleNamespace:
        return SimpleNamespace(train=lambda context: self.trained.append((module, context)))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(command, "import_module", made)
    return made


def test_every_stage_has_its_module() -> None:
    assert all(importlib.util.find_spec(module) is not None for module in command.STAGES.values())


def test_all_stages_run_in_order_by_default(recorder: Recorder, tmp_path: Path) -> None:
    command.main(["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"), "--seed", "4"])
    assert [module for module, _ in recorder.trained] == list(command.STAGES.values())
    assert {context.seed for _, context in recorder.trained} == {4}
    assert recorder.trained[0][1] == StageContext(
        out=tmp_path / "out", work=tmp_path / "work", smoke=False, seed=4, threads=2
    )


def test_named_stages_run_in_the_given_order(recorder: Recorder, tmp_path: Path) -> None:
    command.main(["language", "clip", "--work", str(tmp_path)])
    assert [module.rpartition(".")[2] for module, _ in recorder.trained] == ["language", "clip"]


def test_a_rehearsal_never_overwrites_trained_weights(recorder: Recorder) -> None:
    command.main(["clip", "--smoke"])
    command.main(["clip"])
    rehearsal, real = (context for _, context in recorder.trained)
    assert rehearsal.smoke
    assert rehearsal.out.is_relative_to(rehearsal.work)
    assert real.out.parts[-2:] == ("suite", "weights")


def test_an_unknown_stage_error_lists_the_known_ones(
    recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(["decodr"])
    assert recorder.trained == []
    assert "'decodr'" in (said := capsys.readouterr().err)
    assert "autoencoder, clip" in said


def test_the_mean_of_independent_values_has_a_normal_interval() -> None:
    found = mean([1.0, 2.0, 3.0, 4.0])
    error = 1.959964 * np.std([1, 2, 3, 4], ddof=1) / 2
    assert (found.estimate, found.n) == (2.5, 4)
    assert found.low == pytest.approx(2.5 - error)
    assert found.high == pytest.approx(2.5 + error)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_fewer_than_two_values_give_no_interval(values: list[float]) -> None:
    with pytest.raises(ValueError, match=f"got {len(values)}"):
        mean(values)


def test_figures_are_formatted_with_interval_and_n() -> None:
    nothing = Estimate(estimate=None, low=None, high=None, n=0)
    rows = table({"hits": share(9, 10), "none": nothing}, "rate of").splitlines()
    assert rows[0] == "| rate of | estimate | low | high | n |"
    assert rows[2].startswith("| hits | 0.900 | ")
    assert rows[2].endswith("| 10 |")
    assert rows[3] == "| none | - | - | - | 0 |"


def test_weights_are_saved_in_half_precision_and_counters_as_integers(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    write_half(model, tmp_path / "model.safetensors")
    found = load_file(tmp_path / "model.safetensors")
    assert found["0.weight"].dtype == torch.float16
    assert found["1.num_batches_tracked"].dtype == torch.int64
    assert torch.allclose(found["0.weight"].float(), model.state_dict()["0.weight"], atol=1e-3)
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_card_starts_with_its_title(tmp_path: Path) -> None:
    write_card(tmp_path, "Some model", ["What it is.", "| a |"])
    assert (tmp_path / "README.md").read_text() == "# Some model\n\nWhat it is.\n\n| a |\n"


def test_a_prompt_tokenizer_adds_no_end_token() -> None:
    closed, opened = caption_tokenizer(), caption_tokenizer(closing=False)
    assert closed("a boat").input_ids == [*opened("a boat").input_ids, closed.eos_token_id]
    assert caption_tokenizer("subject")("subject").input_ids[1] == len(closed)


def test_rendered_images_are_reused_only_for_the_same_scenes(tmp_path: Path) -> None:
    scenes, cache = [scene_for(DEVELOPMENT, index, UNIFORM) for index in range(4)], tmp_path / "kept.npy"
    first = render_all(scenes[:3], cache)
    np.save(cache, np.concatenate([np.zeros_like(first[:2]), first[2:]]))
    assert not render_all(scenes[:3], cache)[0].any()
    for others in (scenes[1:], scenes):
        assert np.array_equal(render_all(others, cache)[0], render(others[0]))
    assert list(tmp_path.iterdir()) == [cache]


def test_images_become_channels_between_0_and_1() -> None:
    planes = as_tensor(np.array([[[[0, 51, 255]]]], np.uint8))
    assert planes.flatten().tolist() == pytest.approx([0.0, 0.2, 1.0])
    assert planes.shape == (1, 3, 1, 1)


def test_a_step_s_random_numbers_depend_only_on_seed_and_step() -> None:
    draws = [
        float(torch.rand((), generator=step_generator(*key))) for key in ((1, 5), (1, 5), (1, 6), (2, 5))
    ]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3
