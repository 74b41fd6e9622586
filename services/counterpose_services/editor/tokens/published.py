"""Reads tokens that others published, as pickles or safetensors, without running code from the pickles.

The ImageNet* tokens (`madrylab/imagenet-star-tokens`) are a ``tokens.zip`` with ``0.bin`` to ``999.bin``, one
per class in the order of ImageNet; each is a vector written by `torch.save`. Other files of textual inversion
contain a dictionary with a placeholder and its vectors, and diffusers' own training writes it as safetensors.
"""

from __future__ import annotations

import argparse
import io
import pickle
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from counterpose_core.contract.base import ModelIdentity
from counterpose_core.contract.token_files import MAX_TOKEN_BYTES
from counterpose_core.contract.tokens import LearnedToken, LearnTokenItem, TokenDescription
from counterpose_core.errors import InvalidRequest, ModelFormatRefused
from counterpose_core.types import BlobRef
from counterpose_services.editor.call import EngineCall
from counterpose_services.editor.tokens.files import (
    TokenBundle,
    is_described,
    is_safetensors,
    pack_bundle,
    unpack_bundle,
)

BASE_MODEL = "stabilityai/stable-diffusion-2"
"""The model of ImageNet*'s tokens; the released code names no revision that is still available."""
UNKNOWN_REVISION = "published"
LEARNED_STEPS = 3000
_MEMBER = re.compile(r"(?:.*/)?(\d{1,6})\.bin")


def read_published(data: bytes) -> Tensor:
    """Read the vectors (k, D) of one file, in float32.

    Raises:
        ModelFormatRefused: it contains code, is a file of neither `torch.save` nor safetensors, or has not
            exactly one placeholder's vectors.
    """
    if len(data) > MAX_TOKEN_BYTES:
        raise ModelFormatRefused(f"the token's file has {len(data)} bytes, more than {MAX_TOKEN_BYTES}")
    try:
        # Builds only tensors and plain containers; any other name in a pickle is refused, not called.
        loaded: object = (
            load(data)
            if is_safetensors(data)
            else torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        )
    except SafetensorError as error:
        raise ModelFormatRefused(f"the token's file is damaged safetensors: {error}") from error
    except (
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        zipfile.BadZipFile,
    ) as error:
        raise ModelFormatRefused("the token's file contains code or was not written by torch.save") from error
    vectors = _vectors(loaded)
    if vectors is None or not bool(torch.isfinite(vectors).all()):
        held = f"a {type(loaded).__name__}"
        if isinstance(loaded, dict) and loaded:
            held = ", ".join(sorted(map(repr, loaded)))[:200]
        raise ModelFormatRefused(
            f"the token's file holds {held}, not one placeholder with finite vectors of one text encoder"
        )
    return vectors


def published_token(call: EngineCall, item: LearnTokenItem, file: BlobRef) -> LearnedToken:
    """Take the token in a stored file: one of `torch.save` or safetensors, or a bundle.

    Raises:
        ArtifactMissing: there is no such file in the store.
        InvalidRequest: it was made for another model.
        ModelFormatRefused: it is neither, or holds no finite vector.
    """
    data = call.store.get(file)
    described = is_described(data)
    try:
        bundle = unpack_bundle(data) if described else _unnamed(data, item.class_name)
    except ModelFormatRefused as error:
        raise ModelFormatRefused(f"the published token of {item.class_name!r}: {error.detail}") from error
    bundle.require_fit(call.pipeline.identity, call.pipeline.prompts.width)
    ref = file if described else call.store.put(pack_bundle(bundle))
    return LearnedToken(class_name=item.class_name, steps=0, bundle=ref)


def _unnamed(data: bytes, class_name: str) -> TokenBundle:
    """Read a file that says neither its class nor its model, which is then ImageNet*'s."""
    return _bundle(read_published(data), class_name, BASE_MODEL)


def _vectors(loaded: object) -> Tensor | None:
    """Find the vectors: alone, as the only value of a dictionary, or there in a pair after their name."""
    # Without recursion, because even a small pickle can be nested deeply.
    if isinstance(loaded, dict) and len(loaded) == 1:
        loaded = next(iter(loaded.values()))
    if isinstance(loaded, tuple | list) and len(loaded) == 2 and isinstance(loaded[0], str):
        loaded = loaded[1]
    if not isinstance(loaded, Tensor) or loaded.ndim not in (1, 2) or loaded.numel() == 0:
        return None
    if not loaded.is_floating_point():
        return None
    return loaded.detach().to(torch.float32).reshape(-1, loaded.shape[-1]).contiguous()


def convert(
    archive: Path, class_names: Sequence[str], *, model: str = BASE_MODEL
) -> Iterator[tuple[int, TokenBundle]]:
    """Yield the number and the bundle of each token in a zip archive, in the order of their numbers.

    Raises:
        InvalidRequest: a token's number has no class name.
        ModelFormatRefused: a file is refused; the error names it.
    """
    with zipfile.ZipFile(archive) as files:
        found = {
            int(match[1]): each for each in files.infolist() if (match := _MEMBER.fullmatch(each.filename))
        }
        for number, member in sorted(found.items()):
            if number >= len(class_names):
                raise InvalidRequest(
                    f"{member.filename!r} has no class name: only {len(class_names)} names are given"
                )
            # By the unpacked size, because a few bytes can expand to gigabytes.
            if member.file_size > MAX_TOKEN_BYTES:
                raise ModelFormatRefused(
                    f"{member.filename!r} has {member.file_size} bytes, more than a token's {MAX_TOKEN_BYTES}"
                )
            try:
                vectors = read_published(files.read(member))
            except ModelFormatRefused as error:
                raise ModelFormatRefused(f"{member.filename!r}: {error.detail}") from error
            yield number, _bundle(vectors, class_names[number], model)


def _bundle(vectors: Tensor, class_name: str, model: str) -> TokenBundle:
    return TokenBundle(
        vectors,
        TokenDescription(
            class_name=class_name,
            initialiser=class_name,
            model=ModelIdentity(id=model, revision=UNKNOWN_REVISION),
            width=vectors.shape[1],
            vectors=vectors.shape[0],
            steps=LEARNED_STEPS,
            pin_norm=True,
            templates="object",
        ),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a bundle for each token of an archive: ``<number>.safetensors``."""
    parser = argparse.ArgumentParser(prog="python -m counterpose_services.editor.tokens.published")
    parser.add_argument("--archive", type=Path, required=True, help="tokens.zip")
    parser.add_argument(
        "--class-names", type=Path, required=True, help="text file, one class per line, in order"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the bundles")
    parser.add_argument("--model", default=BASE_MODEL, help="the model's name in the suite (%(default)s)")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    class_names = given.class_names.read_text(encoding="utf-8").splitlines()
    for number, bundle in convert(given.archive, class_names, model=given.model):
        (given.out / f"{number}.safetensors").write_bytes(pack_bundle(bundle))


if __name__ == "__main__":
    main()
