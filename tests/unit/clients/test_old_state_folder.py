"""A state folder from before the product was renamed is refused, with one sentence that says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpose._stack.state_folder import prepare
from counterpose_core.errors import InvalidRequest


def folder(path: Path, *files: str) -> Path:
    path.mkdir(parents=True)
    for name in files:
        (path / name).touch()
    return path


@pytest.mark.parametrize("name", ["faultline", ".faultline"])
def test_the_folder_beside_ours_is_refused(tmp_path: Path, name: str) -> None:
    old = folder(tmp_path / name, "ledger.db", "secret")
    ours = tmp_path / name.replace("faultline", "counterpose")
    with pytest.raises(InvalidRequest) as refused:
        prepare(ours)
    assert refused.value.detail == (
        f"{str(old)!r} holds runs of this product under its old name, which this version cannot read: move "
        "the folder away or delete it, then start again"
    )
    assert not ours.exists()


def test_the_folder_itself_is_refused(tmp_path: Path) -> None:
    old = folder(tmp_path / ".faultline", "ledger.db", "secret")
    with pytest.raises(InvalidRequest, match="under its old name"):
        prepare(old)
    assert sorted(path.name for path in old.iterdir()) == ["ledger.db", "secret"]


def test_an_older_ledger_beside_a_folder_of_ours_is_left_alone(tmp_path: Path) -> None:
    folder(tmp_path / ".faultline", "ledger.db", "secret")
    ours = folder(tmp_path / ".counterpose", "secret")
    prepare(ours)


def test_a_folder_of_another_product_of_that_name_is_none_of_ours(tmp_path: Path) -> None:
    folder(tmp_path / ".faultline", "config.toml")
    prepare(tmp_path / ".counterpose")
    assert (tmp_path / ".counterpose" / "secret").exists()
