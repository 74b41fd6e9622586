"""The demo's pictures come without captions: the captioner is part of what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline_gateway.ledger import Ledger
from faultline_gateway.main import main as gateway_command
from faultline_miniature.world.__main__ import balanced_scenes
from faultline_miniature.world.dataset import write_image_folder
from faultline_miniature.world.sampling import DATASET
from faultline_miniature.world.scene import VALUES
from faultline_miniature.world.seeds import SPLITS
from stack import DEMO_PER_CLASS, DEMO_SPLIT, Stack


class Told(Stack):
    """A stack that notes what it would run."""

    def _run(self, *command: str) -> None:
        with (self.state / "told").open("a", encoding="utf-8") as told:
            told.write(" ".join(command) + "\n")
        if "faultline_miniature.world" in command:
            split = next(split for split in SPLITS if split.name == DEMO_SPLIT)
            scenes = balanced_scenes(split, DATASET, 1)
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


def test_the_demo_s_pictures_are_no_training_pictures() -> None:
    assert DEMO_SPLIT == "development"
