"""The demo's images have no captions: the captioner is part of the demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from counterpose._stack import DEMO_PER_CLASS, Programs, Stack
from counterpose._stack.demo_datasets import DemoDatasets
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.main import main as gateway_command
from counterpose_miniature.training.held_out import held_out, main
from counterpose_miniature.world.dataset import write_image_folder
from counterpose_miniature.world.scene import VALUES
from counterpose_miniature.world.seeds import DEVELOPMENT, balanced_scenes


class NotingDatasets(DemoDatasets):
    """Datasets that record the commands instead of running them."""

    def _run(self, failure: str, command: Sequence[str]) -> None:
        with (self.state / "told").open("a", encoding="utf-8") as told:
            told.write(" ".join(command) + "\n")
        if "counterpose_miniature.training.held_out" in command:
            scenes = balanced_scenes(DEVELOPMENT, held_out(), 1)
            write_image_folder(Path(command[4]), [next(scenes), next(scenes)])


@pytest.fixture
def registration(tmp_path: Path) -> list[str]:
    """The command by which ``counterpose demo`` registers its images, which are rendered."""
    noting = NotingDatasets(tmp_path, Programs.of(tmp_path / "bin"), {})
    noting.register_demo("demo", DEMO_PER_CLASS)
    name, *arguments = (tmp_path / "told").read_text(encoding="utf-8").splitlines()[-1].split()
    return [Path(name).name, *arguments]


def test_existing_captions_are_not_registered_with_the_images(
    registration: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    assert registration[:3] == ["counterpose-gateway", "register-dataset", "demo"]
    assert '"caption"' in (Path(registration[3]) / "metadata.jsonl").read_text(encoding="utf-8")
    assert gateway_command(registration[1:]) == 0
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    sources = ledger.datasets.sources("demo")
    ledger.close()
    assert [source.caption for source in sources] == [None, None]


def test_captions_are_registered_on_request(
    registration: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERPOSE_STATE_DIR", str(tmp_path))
    assert gateway_command([*registration[1:], "--captions"]) == 0
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert all(source.caption for source in ledger.datasets.sources("demo"))
    ledger.close()


def test_the_demo_has_at_least_forty_images() -> None:
    assert len(VALUES["object_class"]) * DEMO_PER_CLASS >= 40


def test_most_images_of_a_class_show_the_attribute_its_classifier_relies_on() -> None:
    scenes = list(balanced_scenes(DEVELOPMENT, held_out(), 30))
    boats = [scene.background == "water" for scene in scenes if scene.object_class == "boat"]
    sleds = [scene.companion == "dog" for scene in scenes if scene.object_class == "sled"]
    assert 0.6 < sum(boats) / 30 < 1.0
    assert 0.6 < sum(sleds) / 30 < 1.0


def test_demo_images_are_not_training_images(tmp_path: Path) -> None:
    main([str(tmp_path / "demo"), "--per-class", "1"])
    write_image_folder(tmp_path / "development", balanced_scenes(DEVELOPMENT, held_out(), 1))
    written = [
        sorted(file.relative_to(tmp_path / name) for file in (tmp_path / name).rglob("*.png"))
        for name in ("demo", "development")
    ]
    assert written[0] == written[1]
    assert len(written[0]) == len(VALUES["object_class"])


def test_installed_commands_render_and_register_the_dataset(tmp_path: Path) -> None:
    programs = Programs.installed()
    DemoDatasets(tmp_path, programs, Stack(tmp_path).environment()).register_user("user", 1)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert sorted(source.label for source in ledger.datasets.sources("user")) == sorted(
        VALUES["object_class"]
    )
    ledger.close()
    assert "8 classes" in (tmp_path / "datasets.log").read_text(encoding="utf-8")
    assert [path.name for path in (tmp_path / "datasets").iterdir()] == ["user"]


def test_some_classes_can_have_more_images_than_others(tmp_path: Path) -> None:
    main([str(tmp_path), "--classes", "bus,sled", "--per-class", "3", "--others", "1"])
    counts = {
        folder.name: len(list(folder.glob("*.png"))) for folder in tmp_path.iterdir() if folder.is_dir()
    }
    assert counts == dict.fromkeys(VALUES["object_class"], 1) | {"bus": 3, "sled": 3}


def test_a_class_that_the_world_lacks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "out"), "--classes", "bus,unicorn"])
    assert "the world has no class 'unicorn'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
