"""Published tokens in folders and archives: which class each file is of, and what is refused unsent."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path

import pytest

from counterpose import Client
from counterpose._cli.exit_code import ExitCode
from counterpose._token_files import token_batches
from counterpose_core.contract.token_files import MAX_FILES, MAX_TOKEN_BYTES, TokenFilesAdded
from counterpose_core.errors import InvalidRequest
from fakes.command import Play, run
from fakes.interface_answers import an_interface_summary, interface_answer
from fakes.sdk import ok

BOAT, TRAM = "a" * 64, "b" * 64


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as files:
        for name, content in members.items():
            files.writestr(name, content)
    return path


def bundle(class_name: str) -> bytes:
    """The header of a token bundle, which says its class."""
    header = json.dumps(
        {"__metadata__": {"counterpose-token": json.dumps({"class_name": class_name})}}
    ).encode()
    return len(header).to_bytes(8, "little") + header


def read(path: Path, classes: list[str] | None = None) -> dict[str, bytes]:
    files = [file for batch in token_batches(path, classes) for file in batch]
    return {file.class_name: base64.b64decode(file.content_base64) for file in files}


@pytest.mark.paper("DI-S3.2-tokens")
def test_the_released_archive_s_numbers_are_imagenet_s_classes_in_order(tmp_path: Path) -> None:
    members = {
        "tokens/0.bin": b"0",
        "tokens/404.bin": b"404",
        "tokens/README.md": b"x",
        "__MACOSX/._0.bin": b"x",
    }
    assert read(archive(tmp_path / "tokens.zip", members)) == {"tench": b"0", "airliner": b"404"}


def test_a_folder_is_read_as_an_archive_is(tmp_path: Path) -> None:
    (tmp_path / "1.bin").write_bytes(b"1")
    (tmp_path / "boat.bin").write_bytes(b"boat")
    (tmp_path / "any.safetensors").write_bytes(bundle("tram"))
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    (tmp_path / "folder.bin").mkdir()
    assert read(tmp_path, ["sled", "kite"]) == {"kite": b"1", "boat": b"boat", "tram": bundle("tram")}


def test_safetensors_of_another_program_are_named_as_other_files_are(tmp_path: Path) -> None:
    plain = bundle("tram").replace(b"counterpose-token", b"another-programme")
    bare = (8).to_bytes(8, "little") + b'{"a":{}}'
    members = {"1.safetensors": plain, "boat.safetensors": bare, "any.safetensors": bundle("tram")}
    found = read(archive(tmp_path / "tokens.zip", members), ["sled", "kite"])
    assert found == {"kite": plain, "boat": bare, "tram": bundle("tram")}


def test_all_of_imagenet_s_tokens_go_in_a_few_requests(tmp_path: Path) -> None:
    file = archive(tmp_path / "tokens.zip", {f"{number}.bin": bytes(5000) for number in range(1000)})
    batches = list(token_batches(file))
    assert sum(len(batch) for batch in batches) == 1000
    assert max(len(batch) for batch in batches) <= MAX_FILES
    assert len(batches) == 5


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({}, "has no file that ends in .bin or .safetensors"),
        ({"1000.bin": b"x"}, "'1000.bin' has no class: only 1000 classes are given"),
        ({"0.bin": b"x", "tench.bin": b"y"}, "are both of 'tench'"),
        ({"0.bin": bytes(MAX_TOKEN_BYTES + 1)}, f"'0.bin' has {MAX_TOKEN_BYTES + 1} bytes"),
        ({"a.safetensors": b"x"}, "'a.safetensors' is not a token bundle"),
        ({"a.safetensors": (2).to_bytes(8, "little") + b"[]"}, "'a.safetensors' is not a token bundle"),
        ({"a.safetensors": bundle("tram").replace(b"class_name", b"otherwise!")}, "is not a token bundle"),
    ],
    ids=["none", "number", "twice", "large", "no bundle", "no header", "no class"],
)
def test_an_archive_that_cannot_be_meant_is_refused(
    tmp_path: Path, members: dict[str, bytes], told: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        list(token_batches(archive(tmp_path / "tokens.zip", members)))
    assert told in caught.value.detail


def test_a_member_that_unpacks_to_more_than_it_says_is_refused(tmp_path: Path) -> None:
    file = archive(tmp_path / "tokens.zip", {"0.bin": bytes(100_000)})
    content = file.read_bytes()
    # The size that the archive's list gives, and that beside the file.
    file.write_bytes(content.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(InvalidRequest, match="readable zip archive"):
        list(token_batches(file))


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_what_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokens.zip").write_bytes(content)
    with pytest.raises(InvalidRequest, match="neither a folder nor a readable zip archive"):
        list(token_batches(tmp_path / "tokens.zip"))


def test_the_command_sends_the_tokens_and_names_them(play: Play, tmp_path: Path) -> None:
    added = ok(TokenFilesAdded(tokens={"boat": BOAT, "tram": TRAM}).model_dump_json())
    summary = ok(an_interface_summary().model_dump_json(by_alias=True))
    script = play(added, interface_answer(), interface_answer("completed", 3), summary)
    (tmp_path / "classes.txt").write_text("boat\ntram\n", encoding="utf-8")
    (tmp_path / "0.bin").write_bytes(b"0")
    (tmp_path / "1.bin").write_bytes(b"1")
    given = ["--tokens", str(tmp_path), "--token-classes", str(tmp_path / "classes.txt")]
    shown = run("dataset-interface", "demo", *given)
    assert shown.exit_code == 0, shown.output
    sent = json.loads(script.seen[0].content)["files"]
    assert [(file["class_name"], base64.b64decode(file["content_base64"])) for file in sent] == [
        ("boat", b"0"), ("tram", b"1"),
    ]  # fmt: skip
    assert json.loads(script.seen[1].content) == {
        "dataset": "demo", "token_init": "class-name", "seed": 0, "tokens": {"boat": BOAT, "tram": TRAM},
        "classes": None, "prompts": None, "vectors": None, "steps": None, "limit": None,
    }  # fmt: skip


def test_classes_without_tokens_are_a_mistake(play: Play, tmp_path: Path) -> None:
    play()
    shown = run("dataset-interface", "demo", "--token-classes", str(tmp_path / "classes.txt"))
    assert shown.exit_code == ExitCode.USAGE
    assert "--tokens, which is missing" in shown.stderr


def test_the_answer_of_an_upload_is_what_an_interface_takes(play: Play, tmp_path: Path) -> None:
    (tmp_path / "boat.bin").write_bytes(b"0")
    script = play(ok(TokenFilesAdded(tokens={"boat": BOAT}).model_dump_json()), interface_answer())
    with Client() as client:
        client.dataset_interfaces.create(dataset="demo", tokens=client.token_files.upload(tmp_path))
    assert json.loads(script.seen[1].content)["tokens"] == {"boat": BOAT}
