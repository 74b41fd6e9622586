"""The demo's pictures come without captions: the captioner is part of what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline_gateway.ledger import Ledger
from faultline_gateway.main import main as gateway_command
from faultline_miniature.training.held_out import held_out, main
from faultline_miniature.world.__main__ import balanced_scenes
from faultline_miniature.world.dataset import write_image_folder
from faultline_miniature.world.scene import VALUES
from faultline_miniature.world.seeds import DEVELOPMENT
from stack import DEMO_PER_CLASS, Stack


class Told(Stack):
    """A stack that notes what it would run."""

    def _run(self, *command: str) -> None:
        with (self.state / "told").open("a", encoding="utf-8") as told:
            told.write(" ".join(command) + "\n")
        if "faultline_miniature.training.held_out" in command:
            scenes = balanced_scenes(DEVELOPMENT, held_out(), 1)
            write_image_folder(Path(command[3]), [next(scenes), next(scenes)])


@pytest.fixture
def registration(tmp_path: Path) -> list[str]:
    """The command by which ``make demo`` registers its pictures, which are rendered."""
    told = Told(tmp_path)
    told.register("demo", DEMO_PER_CLASS)
    return (tmp_path / "told").read_text(encoding="utf-8").splitlines()[-1].split()


def test_the_pictures_are_registered_without_captions_though_some_lie_beside_them(
    registration: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTLINE_STATE_DIR", str(tmp_path))
    assert registration[:3] == ["faultline-gateway", "register-dataset", "demo"]
    assert '"caption"' in (Path(registration[3]) / "metadata.jsonl").read_text(encoding="utf-8")
    assert gateway_command(registration[1:]) == 0
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    sources = ledger.sources("demo")
    ledger.close()
    assert [source.caption for source in sources] == [None, None]


def test_the_gateway_does_take_captions_when_it_is_asked_to(
    registration: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAULTLINE_STATE_DIR", str(tmp_path))
    assert gateway_command([*registration[1:], "--captions"]) == 0
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert all(source.caption for source in ledger.sources("demo"))
    ledger.close()


def test_the_demo_has_forty_pictures_at_least() -> None:
    assert len(VALUES["object_class"]) * DEMO_PER_CLASS >= 40


def test_the_demo_s_classes_mostly_show_what_classifiers_lean_on() -> None:
    scenes = list(balanced_scenes(DEVELOPMENT, held_out(), 30))
    boats = [scene.background == "water" for scene in scenes if scene.object_class == "boat"]
    sleds = [scene.companion == "dog" for scene in scenes if scene.object_class == "sled"]
    assert 0.6 < sum(boats) / 30 < 1.0
    assert 0.6 < sum(sleds) / 30 < 1.0


def test_the_demo_s_pictures_are_no_training_pictures(tmp_path: Path) -> None:
    main([str(tmp_path / "demo"), "--per-class", "1"])
    write_image_folder(tmp_path / "development", balanced_scenes(DEVELOPMENT, held_out(), 1))
    written = [
        sorted(file.relative_to(tmp_path / name) for file in (tmp_path / name).rglob("*.png"))
        for name in ("demo", "development")
    ]
    assert written[0] == written[1]
    assert len(written[0]) == len(VALUES["object_class"])
