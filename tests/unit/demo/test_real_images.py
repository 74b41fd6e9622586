"""The demo's real images: a table of facts, read of packages that are installed or fetched."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from counterpose_core.text.imagenet_hierarchy import class_names
from counterpose_photographs import cutouts as cutouts_module
from counterpose_photographs.cutouts import PACKAGE, cutouts, labels
from counterpose_photographs.scenes import BACKGROUNDS, SCENES, backgrounds, scenes

PATH = next(iter(labels()))
ROOT = Path(__file__).resolve().parents[3]


def stamp(colour: tuple[int, int, int, int] = (255, 0, 0, 128)) -> bytes:
    """A cut-out of one colour."""
    file = io.BytesIO()
    Image.new("RGBA", (40, 20), colour).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a package that is not installed, and no program but those in ``bin``."""
    monkeypatch.setattr(cutouts_module, "INSTALLED", tmp_path / "stamps")
    (tmp_path / "bin").mkdir()
    return tmp_path


def write_program(folder: Path, name: str, script: str) -> None:
    program = folder / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_every_image_shows_a_class_of_imagenet_and_none_is_a_background() -> None:
    known = set(class_names().values())
    assert len(labels()) == 54
    assert set(labels().values()) <= known
    named = {file: label for files in SCENES.values() for file, label in files.items()}
    assert set(named.values()) <= known
    assert not {Path(file).stem for file in named} & set(BACKGROUNDS)
    assert [ground.size for ground in backgrounds()] == [(512, 512)] * 3


def test_no_image_of_the_package_is_in_the_repository() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    stems = {Path(path).stem for path in labels()}
    assert not [path for path in tracked if path.endswith(".png") and Path(path).stem in stems]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"demo/photographs.html", "demo/photographs.json"} <= set(ignored)


def test_cutouts_are_read_where_the_package_is_installed(elsewhere: Path) -> None:
    file = elsewhere / "stamps" / PATH
    file.parent.mkdir(parents=True)
    file.write_bytes(stamp())
    found = cutouts()
    assert list(found) == [PATH]
    assert (found[PATH].mode, found[PATH].size) == ("RGBA", (40, 20))


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes a Debian package")
def test_cutouts_are_read_of_a_package_that_apt_fetches(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = elsewhere / "package"
    for path, data in ((PATH, stamp()), ("other/letter.png", b"no cut-out of the table")):
        file = content / "usr/share/tuxpaint/stamps" / path
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
    (content / "DEBIAN").mkdir()
    # dpkg-deb insists, whatever mask a test before has left.
    (content / "DEBIAN").chmod(0o755)
    (content / "DEBIAN/control").write_text(
        f"Package: {PACKAGE}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: stamps\n"
    )
    built = elsewhere / "built.deb"
    subprocess.run(["dpkg-deb", "--build", str(content), str(built)], check=True, capture_output=True)
    write_program(elsewhere, "apt-get", f'test "$3" = {PACKAGE} && cp {built} .')
    monkeypatch.setenv("PATH", str(elsewhere / "bin"), prepend=":")
    found = cutouts()
    assert list(found) == [PATH]
    assert found[PATH].getpixel((0, 0)) == (255, 0, 0, 128)


def test_without_the_package_there_are_none(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    write_program(elsewhere, "dpkg-deb", "exit 0")
    monkeypatch.setenv("PATH", str(elsewhere / "bin"))
    assert cutouts() == {}
    write_program(elsewhere, "apt-get", "exit 100")
    assert cutouts() == {}
    assert "it cannot be had" in capfd.readouterr().out
    monkeypatch.setattr(cutouts_module, "FETCH_S", 0.2)
    write_program(elsewhere, "apt-get", "exec /bin/sleep 60")
    assert cutouts() == {}


def test_numbered_photographs_are_read_of_a_wheel_without_installing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from counterpose_photographs import scenes as module

    monkeypatch.setattr(module, "_collection", lambda: {"foolbox/data/imagenet_03_990.jpg": stamp()})
    found = {name: (label, image.mode) for name, label, image in scenes()}
    assert found["imagenet_03_990"] == ("buckeye", "RGB")
    assert found["coffee"] == ("espresso", "RGB")
    assert found["flower"] == ("daisy", "RGB")
