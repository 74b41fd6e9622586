"""Weights are read into the network of their configuration, or refused: nothing is left at random."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from counterpose_core.errors import ModelFormatRefused
from counterpose_core.failure import in_a_line
from counterpose_services.models.model_folder import read_variant

_NUMBER = re.compile(r"\d+")


def load_fitting(kind: Any, folder: Path, *, unread: str | None = None, **options: Any) -> Any:
    """Load a folder by a class of transformers or diffusers, from safetensors.

    transformers only logs that a tensor is missing, and computes with random numbers in its place.

    Args:
        kind: a class with ``from_pretrained``.
        folder: its configuration and weights.
        unread: the beginning of names that may be missing, of a part that the service does not read.
        options: further arguments of ``from_pretrained``, such as the precision.

    Raises:
        ModelFormatRefused: the weights are those of another architecture than the configuration's, or the
            library cannot read the configuration.
    """
    if not (folder / "config.json").is_file():
        # Without it, transformers builds its default network.
        raise ModelFormatRefused(f"the folder {str(folder)!r} has no config.json; add it")
    options |= {"variant": read_variant(folder)}
    try:
        model, found = kind.from_pretrained(folder, use_safetensors=True, output_loading_info=True, **options)
    except (AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        if _is_misfit(error):
            raise ModelFormatRefused(_refusal(folder, "their shapes differ")) from error
        # Such as a device without room, which is no fault of the folder.
        if isinstance(error, RuntimeError):
            raise
        raise ModelFormatRefused(
            f"the folder {str(folder)!r} cannot be read as {kind.__name__}: {in_a_line(error)}"
        ) from error
    missing = sorted({*found["missing_keys"], *(_name(key) for key in found["mismatched_keys"])})
    if unread is not None:
        missing = [name for name in missing if not name.startswith(unread)]
    if missing:
        raise ModelFormatRefused(_refusal(folder, f"they lack {missing[0]!r}{_more(missing)}"))
    if beyond := _beyond(model.state_dict(), found["unexpected_keys"]):
        raise ModelFormatRefused(_refusal(folder, f"they go on with {beyond[0]!r}{_more(beyond)}"))
    return model


def _is_misfit(error: Exception) -> bool:
    """Whether a library refused the shape of a tensor: each says so in its own words."""
    return any(words in str(error) for words in ("expected shape", "ignore_mismatched_sizes"))


def _beyond(known: Iterable[str], unexpected: Iterable[str]) -> list[str]:
    """Return unused tensors of further layers: like known ones but for a number.

    Other unused tensors are buffers of older releases, or heads that a service does not read.
    """
    patterns = {_NUMBER.sub("#", name) for name in known}
    return sorted(name for name in unexpected if _NUMBER.sub("#", name) in patterns)


def _name(key: Any) -> str:
    """Some releases name a mismatched tensor alone, others together with both shapes."""
    return str(key if isinstance(key, str) else key[0])


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


def _refusal(folder: Path, why: str) -> str:
    where = f"the weights in {str(folder)!r}"
    return f"{where} do not fit its config.json: {why}; take both from the same checkpoint"
