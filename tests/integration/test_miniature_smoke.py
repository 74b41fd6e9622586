"""A rehearsal of the generator's training: a stage is killed and resumed, and diffusers loads the result."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from counterpose_miniature.training.__main__ import STAGES, main

_SOURCES = Path(__file__).parents[2] / "services"


def _start(work: Path, *stages: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "counterpose_miniature.training", *stages]
    options = ["--smoke", "--work", str(work), "--threads", "1"]
    return subprocess.Popen(
        [*command, *options],
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(_SOURCES), "PATH": "", "OMP_NUM_THREADS": "1"},
    )


def _kill_after_its_first_checkpoint(work: Path, stage: str) -> None:
    process = _start(work, stage)
    assert process.stderr is not None
    while not (work / stage / "checkpoint.pt").exists():
        assert process.stderr.read(8), "the stage ended before its first checkpoint"
    process.kill()
    process.communicate()


def test_a_killed_stage_resumes_and_the_generator_loads_as_a_diffusers_pipeline(tmp_path: Path) -> None:
    _kill_after_its_first_checkpoint(tmp_path, "autoencoder")
    assert not (tmp_path / "autoencoder" / "done.json").exists()
    stages = ("autoencoder", "latents", "decoder", "denoiser", "preview")
    _, errors = (process := _start(tmp_path, *stages)).communicate()
    assert process.returncode == 0, errors.decode()
    starts = re.findall(r"from step (\d+) of", (tmp_path / "autoencoder" / "log.txt").read_text())
    assert int(starts[0]) == 0
    assert int(starts[1]) > 0
    _check_only_the_decoder_was_polished(tmp_path)
    _check_generator(tmp_path / "weights" / "editor")
    _check_preview(tmp_path / "weights" / "preview")


def _check_only_the_decoder_was_polished(work: Path) -> None:
    file = Path("model") / "diffusion_pytorch_model.safetensors"
    before, after = load_file(work / "latents" / file), load_file(work / "decoder" / file)
    changed = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"decoder", "post_quant_conv"}


def _check_generator(folder: Path) -> None:
    from diffusers import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(folder, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    image = pipeline("a photo of a red bus", num_inference_steps=2, output_type="np").images[0]
    assert image.shape == (64, 64, 3)
    assert (
        json.loads((folder / "scheduler" / "scheduler_config.json").read_text())["prediction_type"]
        == "v_prediction"
    )
    assert "agreement" in (folder / "README.md").read_text()


def _check_preview(folder: Path) -> None:
    from diffusers import AutoencoderTiny

    model = AutoencoderTiny.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        assert model.decode(torch.zeros(1, 4, 16, 16)).sample.shape == (1, 3, 64, 64)
    assert "preview against full decoder" in (folder / "README.md").read_text()


def test_an_unknown_stage_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["denoser"])
    assert "denoser" in capsys.readouterr().err


def test_every_listed_stage_is_a_module_of_the_training_package() -> None:
    folder = _SOURCES / "counterpose_miniature" / "training"
    missing = [
        name for name, module in STAGES.items() if not (folder / f"{module.rsplit('.', 1)[1]}.py").exists()
    ]
    assert missing == []
