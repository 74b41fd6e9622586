"""A model's folder: where it is, which of its files are read, the check of its weights and its digest."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError, safe_open

from counterpose_core.errors import ModelFormatRefused, UnknownModel
from counterpose_core.suite import PublishedModel
from counterpose_services.models.file_digests import DIGESTS

# Each part begins with a letter or digit, which excludes `..` and hidden folders.
_RELATIVE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
# Neither `*.bin` nor `*.py`: no file that could contain code is downloaded or read.
_VARIANT_ENDS = (".safetensors", "-*.safetensors")
_READ = ("*.safetensors", "*.json", "*.txt", "*.model")


def model_folder(root: Path, name: str, published: PublishedModel | None = None) -> Path:
    """Find a model's folder under ``root``, or else among the models already downloaded from the hub.

    Args:
        root: the folder of all models.
        name: the model's name.
        published: the repositories to look for; default: one of the model's name.

    Raises:
        UnknownModel: it is in neither place; nothing is downloaded.
    """
    if not _RELATIVE.fullmatch(name):
        raise UnknownModel(f"{name!r} is not a model name; use letters, digits, '.', '_', '-' and '/'")
    folder = root / name
    if folder.is_dir():
        return folder
    places = [(name, None)] if published is None else _repositories(published)
    for repository, revision in places:
        try:
            return Path(
                snapshot_download(
                    repository, revision=revision, local_files_only=True, allow_patterns=list(_READ)
                )
            )
        except (LocalEntryNotFoundError, HFValidationError):
            continue
    raise UnknownModel(
        f"there is no folder {name!r} under the model root and no downloaded model of that name; "
        f"{how_to_get(name, published)}"
    )


def _repositories(published: PublishedModel) -> list[tuple[str, str | None]]:
    """The repositories that have a model, each with the revision to read."""
    mirrors = [] if published.mirror is None else [(published.mirror, None)]
    return [(published.repository, published.revision), *mirrors]


def how_to_get(name: str, published: PublishedModel | None) -> str:
    """Say in a part of a sentence what to do to have a model's files."""
    if published is None:
        return f"put its files into the folder {name!r}"
    repository, revision = _repositories(published)[-1 if published.gone else 0]
    at = "" if revision is None else f" --revision {revision}"
    weights, *others = _READ
    # With the variant alone, a download is as small as its weights.
    chosen = (
        [weights] if published.variant is None else [f"*.{published.variant}{end}" for end in _VARIANT_ENDS]
    )
    files = " ".join(f"--include '{pattern}'" for pattern in (*chosen, *others))
    told = ["accept its licence on the hub first"] if published.gated else []
    told += [f"licence {published.licence}"] if published.licence is not None else []
    told += [f"a mirror: {published.repository} has left the hub"] if published.gone else []
    return f"run: hf download {repository}{at} {files}" + (f" ({', '.join(told)})" if told else "")


def stays_inside(folder: Path, root: Path) -> bool:
    """Return True if the folder and all its files are under ``root``, with links resolved."""
    inside = root.resolve()
    return all(path.resolve().is_relative_to(inside) for path in (folder, *folder.rglob("*")))


def folder_revision(folder: Path) -> str:
    """Return the digest of all files that a model is read from: weights, configurations and vocabularies."""
    # Neither the folder's name nor times count, so that a copy finds the original's cached results.
    total = hashlib.sha256()
    files = sorted({path for pattern in _READ for path in folder.rglob(pattern)})
    for path in files:
        total.update(f"{path.relative_to(folder).as_posix()} {DIGESTS.of(path)}\n".encode())
    return total.hexdigest()


def require_readable(file: Path) -> None:
    """Refuse a file that is not safetensors: another format, a wrong header or overlapping tensors.

    Raises:
        ModelFormatRefused: the file is one of these, or cannot be read.
    """
    try:
        # The library checks the header against the file's size and the tensors against each other.
        with safe_open(file, framework="numpy"):
            pass
    except SafetensorError as error:
        raise ModelFormatRefused(
            f"{_named(file)} is not a safetensors file ({error}); convert the weights to safetensors"
        ) from error
    except OSError as error:
        raise ModelFormatRefused(
            f"{_named(file)} cannot be read; check that the file exists and is readable"
        ) from error


def require_safetensors(folder: Path) -> None:
    """Refuse a folder whose weights are not safetensors.

    Raises:
        ModelFormatRefused: it has no ``*.safetensors`` file, or one that is not safetensors.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelFormatRefused(
            f"the folder {folder.name!r} has no safetensors weights; convert its weights to safetensors"
        )
    for file in files:
        require_readable(file)


def _named(file: Path) -> str:
    return f"{file.name!r} of {file.parent.name!r}"


# `model.fp16.safetensors`, and of several files `model.fp16-00001-of-00002.safetensors`.
_VARIANT = re.compile(r".+\.([a-z0-9_]+)(-\d{5}-of-\d{5})?\.safetensors")


def variant_of(file: Path) -> str | None:
    """Return the variant in the name of a file of weights; None for the usual ones."""
    match = _VARIANT.fullmatch(file.name)
    return None if match is None else match[1]


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files that a library reads from ``folder``: those of `read_variant`."""
    wanted = read_variant(folder)
    return [file for file in sorted(folder.glob("*.safetensors")) if variant_of(file) == wanted]


def read_variant(folder: Path) -> str | None:
    """Return the variant to read: none where the usual weights are there, else the first by name."""
    variants = {variant_of(file) for file in folder.glob("*.safetensors")}
    return None if None in variants or not variants else min(name for name in variants if name is not None)
