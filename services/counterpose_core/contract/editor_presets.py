"""The presets of all backends: a union that is told apart by ``backend``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from counterpose_core.contract.backend_preset import BackendPreset
from counterpose_core.contract.editor_backends import EditorBackend
from counterpose_core.contract.images_api import ImagesApiPreset
from counterpose_core.contract.prompt_to_prompt import PromptToPromptPreset

PRESETS: Mapping[EditorBackend, type[BackendPreset]] = MappingProxyType(
    {"prompt-to-prompt": PromptToPromptPreset, "images-api": ImagesApiPreset}
)
"""The preset of each backend."""

UNTAGGED: EditorBackend = "prompt-to-prompt"
"""Whose a preset is that names no backend, as in the suites and runs of before there was a second."""


class _ByBackend:
    """Reads a preset as its backend's own; to everything else it is a `BackendPreset`."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices: dict[Any, CoreSchema] = {name: handler.generate_schema(own) for name, own in PRESETS.items()}
        # A union of one is that one, as in typing: its errors then have no tag in their place.
        if len(choices) == 1:
            return choices[UNTAGGED]
        return core_schema.tagged_union_schema(choices, _backend_of)


def _backend_of(preset: Any) -> Any:
    if isinstance(preset, BackendPreset):
        return preset.backend
    return preset.get("backend", UNTAGGED) if isinstance(preset, Mapping) else None


if TYPE_CHECKING:
    EditorPreset = BackendPreset
else:
    # Not of BackendPreset: FastAPI would describe that too, which no body holds.
    EditorPreset = Annotated[Any, _ByBackend()]
"""The settings of an editor's edits."""

_OF_LOADED_MODELS = frozenset(
    {
        "preview_decoder",
        "textual_inversion",
        "token_prompts",
        "token_link_steps",
        "generation",
        "hunt_generation",
    }
)
"""Settings of an editor that no images server takes."""


def require_server_of(
    presets: Mapping[str, BackendPreset], server: str | None, given: Collection[str]
) -> None:
    """Check that a server makes the images of all presets of a suite's editor, or of none.

    Args:
        presets: the editor's presets by their names.
        server: the address of its model, if it is at one.
        given: the settings of the editor that the suite names.

    Raises:
        ValueError: a preset asks a server and there is none, or the reverse; a setting is of a loaded model.
    """
    has = server is not None
    odd = next((name for name, preset in presets.items() if preset.calls_server is not has), None)
    if odd is not None:
        told = f"preset {odd!r} is of the backend {presets[odd].backend!r}, which asks"
        raise ValueError(
            f"{told} no server, but the model is at {server!r}; put it into a suite of its own"
            if has
            else f'{told} a server; add its address: server = "https://host/v1"'
        )
    if has and (own := sorted(_OF_LOADED_MODELS.intersection(given))):
        raise ValueError(f"{own[0]!r} is for a model that is loaded, not for one at a server; leave it out")
