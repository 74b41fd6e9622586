"""Networks of packages: read once without running their code, and as right as they were."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from counterpose_core.errors import InvalidRequest
from counterpose_photographs import images, networks
from counterpose_photographs.networks import NETWORKS, main, right_answers, write_network
from counterpose_photographs.scenes import backgrounds
from counterpose_services.classifiers.timm_folder import load_folder
from fakes import imagenet_network

NAME = "efficientnet-lite0"


def photograph(name: str) -> Image.Image:
    """A photograph that scikit-image ships."""
    (file,) = (
        each for each in metadata.files("scikit-image") or [] if str(each) == f"skimage/data/{name}.png"
    )
    return Image.open(str(file.locate())).convert("RGB")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every network."""
    folder = tmp_path_factory.mktemp("models")
    main([str(folder)])
    return folder


def test_every_network_is_a_classifier_of_its_own_that_knows_photographs(models: Path) -> None:
    names = {"chelsea": "Egyptian cat", "coffee": "espresso"}
    pixels = [np.asarray(photograph(name)) for name in names]
    assert sorted(path.name for path in models.iterdir()) == sorted(NETWORKS)
    for name, side in NETWORKS.items():
        assert right_answers(name, models, pixels, names.values()) == [True, True]
        loaded = load_folder(models / name, f"local:{name}")
        assert loaded.module.default_cfg["input_size"] == [3, side, side]
        assert not list((models / name).glob("*.pth"))


@pytest.mark.floats
def test_a_written_network_answers_as_its_package_s_weights(models: Path) -> None:
    pixels = np.asarray(photograph("coffee").resize((224, 224)))
    loaded = load_folder(models / NAME, f"local:{NAME}").module.eval()
    with torch.inference_mode():
        batch = torch.from_numpy(pixels / np.float32(127.5) - 1).permute(2, 0, 1)[None]
        own = loaded(batch).softmax(1).numpy()
    assert np.allclose(own, imagenet_network.predict(pixels[None]), atol=1e-5)


class Trap:
    """What a pickle of somebody else's would run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('code of the file was run')",)


def test_a_file_that_would_run_code_is_refused_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trap = tmp_path / "trap.pth"
    torch.save({"conv_stem.weight": Trap()}, trap)
    monkeypatch.setattr(networks, "_weights_file", lambda name: trap)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        write_network(NAME, tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_weights_of_another_architecture_leave_no_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = networks._weights_file(NAME)
    monkeypatch.setattr(networks, "_weights_file", lambda name: own)
    with pytest.raises(InvalidRequest, match="do not fit its architecture"):
        write_network("efficientnet-lite2", tmp_path)
    assert not (tmp_path / "efficientnet-lite2").exists()


def test_a_missing_package_is_named_with_the_extra(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(
        InvalidRequest, match=r"efficientnet-lite9-pytorch-model is not installed.*photographs"
    ):
        write_network("efficientnet-lite9", tmp_path)


def test_a_cutout_stands_in_the_middle_of_the_next_background(tmp_path: Path) -> None:
    cutout = Image.new("RGBA", (340, 170), (255, 0, 0, 255))
    paths = ["animals/birds/tucan.png", "animals/birds/hen.png"]
    assert images.write_cutouts(tmp_path, dict.fromkeys(paths, cutout)) == 2
    toucan, hen = (
        np.asarray(Image.open(tmp_path / name), np.int16) for name in ("toucan/tucan.png", "hen/hen.png")
    )
    assert toucan.shape == (224, 224, 3)
    inside = np.zeros((224, 224), bool)
    inside[69:154, 27:197] = True
    for pixels in (toucan, hen):
        assert (pixels[inside] == (255, 0, 0)).all()
    grass, gravel, _ = (np.asarray(each.resize((224, 224))) for each in backgrounds())
    assert (toucan[~inside] == grass[~inside]).all()
    assert (hen[~inside] == gravel[~inside]).all()
    mask = np.asarray(Image.open(tmp_path / "masks/hen/hen.png"))
    assert ((mask == 255) == inside).all()


def test_a_photograph_that_no_network_knows_is_left_out(
    monkeypatch: pytest.MonkeyPatch, models: Path, tmp_path: Path
) -> None:
    def two() -> Iterator[tuple[str, str, Image.Image]]:
        for label in ("espresso", "tench"):
            yield f"coffee-{label}", label, photograph("coffee")

    monkeypatch.setattr(images, "scenes", two)
    assert images.write_scenes(tmp_path, models) == 1
    assert [path.name for path in tmp_path.rglob("*.png")] == ["coffee-espresso.png"]
