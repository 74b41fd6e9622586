"""Published token files: vectors are read out of pickles, and code is refused without running it."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from counterpose_core.contract.token_files import MAX_TOKEN_BYTES
from counterpose_core.errors import InvalidRequest, ModelFormatRefused
from counterpose_services.editor.tokens.files import unpack_bundle
from counterpose_services.editor.tokens.published import BASE_MODEL, convert, main, read_published

VECTOR = torch.arange(8, dtype=torch.float32)


class Malicious:
    """Unpickling it creates a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def saved(content: object, *, legacy: bool = False) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as files:
        for name, data in members.items():
            files.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "content",
    [
        VECTOR,
        VECTOR.half(),
        VECTOR[None],
        torch.nn.Parameter(VECTOR),
        {"<boat-3>": VECTOR},
        {"placeholder": ("<boat-3>", VECTOR)},
        {"placeholder": ["<boat-3>", VECTOR[None]]},
    ],
    ids=["vector", "half", "row", "parameter", "named", "pair", "listed"],
)
def test_a_vector_is_read_from_every_published_format(content: object) -> None:
    assert read_published(saved(content)).equal(VECTOR[None])


@pytest.mark.parametrize("vector", [VECTOR, VECTOR.half(), VECTOR.bfloat16(), VECTOR[None]])
@pytest.mark.parametrize("name", ["<boat-3>", "emb_params"])
def test_safetensors_with_one_placeholder_are_read_as_pickles_are(name: str, vector: torch.Tensor) -> None:
    assert read_published(save({name: vector})).equal(VECTOR[None])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (save({"<a>": VECTOR, "<b>": -VECTOR}), "holds '<a>', '<b>', not one placeholder"),
        (save({"clip_l": VECTOR, "clip_g": -VECTOR[:4]}), "holds 'clip_g', 'clip_l', not one placeholder"),
        (save({"<a>": VECTOR.reshape(2, 2, 2)}), "holds '<a>', not one placeholder with finite vectors"),
        (save({"<a>": VECTOR * torch.nan}), "holds '<a>', not one placeholder with finite vectors"),
        (save({"<a>": VECTOR.int()}), "holds '<a>', not one placeholder with finite vectors"),
        (save({}), "holds a dict, not one placeholder"),
        (save({"<a>": VECTOR})[:-3], "is damaged safetensors"),
    ],
)
def test_safetensors_of_anything_else_are_refused_by_what_they_hold(data: bytes, told: str) -> None:
    with pytest.raises(ModelFormatRefused, match=told):
        read_published(data)


def test_a_bundle_that_is_asked_for_names_what_it_got_and_where_to_send_it() -> None:
    with pytest.raises(ModelFormatRefused, match=r"of '<cat>' and do not describe .* by token-files"):
        unpack_bundle(save({"<cat>": VECTOR}))


def test_the_legacy_torch_format_is_read() -> None:
    assert read_published(saved(VECTOR, legacy=True)).equal(VECTOR[None])


def test_several_vectors_are_kept_separate() -> None:
    both = torch.stack([VECTOR, -VECTOR])
    assert read_published(saved({"<boat>": both})).equal(both)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_with_code_is_refused_without_running_it(tmp_path: Path, legacy: bool) -> None:
    trap = tmp_path / "made by a pickle"
    for content in (Malicious(trap), {"<boat>": Malicious(trap)}, [VECTOR, Malicious(trap)]):
        with pytest.raises(ModelFormatRefused, match="contains code"):
            read_published(saved(content, legacy=legacy))
    with pytest.raises(ModelFormatRefused, match="contains code"):
        read_published(pickle.dumps(Malicious(trap), protocol=2))
    assert not trap.exists()
    # It is harmful: ordinary unpickling runs it.
    pickle.loads(pickle.dumps(Malicious(trap)))
    assert trap.is_dir()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle at all",
        saved({}),
        saved({"one": VECTOR, "two": VECTOR}),
        saved("boat"),
        saved(torch.zeros(())),
        saved(torch.zeros(0)),
        saved(torch.zeros(2, 2, 2)),
        saved(VECTOR * torch.inf),
        saved(VECTOR)[:-40],
        saved(torch.zeros(MAX_TOKEN_BYTES)),
    ],
    ids=[
        "empty",
        "text",
        "nothing",
        "two",
        "word",
        "number",
        "no numbers",
        "cube",
        "infinite",
        "cut",
        "table",
    ],
)
def test_a_file_without_a_vector_is_refused(data: bytes) -> None:
    with pytest.raises(ModelFormatRefused):
        read_published(data)


@pytest.mark.paper("DI-S3.2-token-files")
def test_an_archive_becomes_one_bundle_per_class(tmp_path: Path) -> None:
    members = {f"tokens/{number}.bin": saved(VECTOR + number) for number in (10, 2, 0)}
    file = archive(tmp_path / "tokens.zip", members | {"tokens/README": b"x", "__MACOSX/._0.bin.txt": b"x"})
    names = [f"class {number}" for number in range(11)]
    found = dict(convert(file, names))
    assert list(found) == [0, 2, 10]
    about = found[10].description
    assert found[10].vectors.equal(VECTOR[None] + 10)
    assert (about.class_name, about.initialiser, about.width, about.vectors) == ("class 10", "class 10", 8, 1)
    assert (about.model.id, about.steps, about.pin_norm, about.data_digest) == (BASE_MODEL, 3000, True, None)


@pytest.mark.parametrize(
    ("members", "names", "error", "message"),
    [
        ({"3.bin": saved(VECTOR)}, ["boat"], InvalidRequest, "'3.bin' has no class name"),
        ({"0.bin": b"x"}, ["boat"], ModelFormatRefused, "'0.bin': "),
        ({"0.bin": bytes(2 * MAX_TOKEN_BYTES)}, ["boat"], ModelFormatRefused, "'0.bin' has 2000000 bytes"),
    ],
)
def test_an_invalid_archive_member_is_refused_by_name(
    tmp_path: Path, members: dict[str, bytes], names: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        list(convert(archive(tmp_path / "tokens.zip", members), names))


def test_the_command_writes_readable_bundles(tmp_path: Path) -> None:
    file = archive(tmp_path / "tokens.zip", {"0.bin": saved(VECTOR), "1.bin": saved(-VECTOR)})
    names = tmp_path / "names.txt"
    names.write_text("tench\ngoldfish\n", encoding="utf-8")
    out = tmp_path / "bundles"
    main(["--archive", str(file), "--class-names", str(names), "--out", str(out), "--model", "mirror/sd-2"])
    goldfish = unpack_bundle((out / "1.safetensors").read_bytes())
    assert goldfish.vectors.equal(-VECTOR[None])
    assert (goldfish.description.class_name, goldfish.description.model.id) == ("goldfish", "mirror/sd-2")
