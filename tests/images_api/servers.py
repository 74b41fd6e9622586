"""What installed servers say of the images API: their classes, and the parameters of their routes.

Neither server is imported: both load CUDA libraries that a machine without a GPU lacks. A module of classes
is loaded without the packages above it; a route is its own signature over an empty body.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import fastapi
import pydantic

_NAMES = vars(fastapi) | {"Json": pydantic.Json}
_TYPING = "from typing import Annotated, Any, List, Optional"


@dataclass(frozen=True)
class Served:
    """A server: its package, the module of its classes, and the module and name of its route of edits."""

    package: str
    classes: str
    request: str
    response: str
    routes: str
    edits: str

    def module(self) -> ModuleType:
        """The module of its classes; the packages above are entered, and not run."""
        names = self.classes.split(".")
        for depth in range(1, len(names)):
            name = ".".join(names[:depth])
            if name not in sys.modules or not hasattr(sys.modules[name], "__path__"):
                entered = ModuleType(name)
                entered.__path__ = [str(_root(self.package).parent.joinpath(*names[:depth]))]
                sys.modules[name] = entered
        return importlib.import_module(self.classes)

    def of_request(self) -> type[pydantic.BaseModel]:
        """The class of a request for images from text."""
        found: type[pydantic.BaseModel] = getattr(self.module(), self.request)
        return found

    def of_response(self) -> type[pydantic.BaseModel]:
        """The class of an answer."""
        found: type[pydantic.BaseModel] = getattr(self.module(), self.response)
        return found

    def route_of_edits(self) -> Callable[..., dict[str, Any]]:
        """Its route of edits, which answers with what it was given."""
        path = _root(self.package).parent.joinpath(*self.routes.split(".")).with_suffix(".py")
        [route] = (
            each
            for each in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(each, ast.AsyncFunctionDef) and each.name == self.edits
        )
        route.body = ast.parse("return locals()").body
        route.decorator_list, route.returns = [], None
        module = ast.parse(_TYPING)
        module.body.append(route)
        space = dict(_NAMES)
        exec(compile(ast.fix_missing_locations(module), str(path), "exec"), space)
        found: Callable[..., dict[str, Any]] = space[self.edits]
        return found


def _root(package: str) -> Path:
    entered = sys.modules.get(package)
    if entered is not None and entered.__spec__ is None:
        return Path(entered.__path__[0])
    found = find_spec(package)
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


SERVERS = (
    Served(
        package="vllm_omni",
        classes="vllm_omni.entrypoints.openai.protocol.images",
        request="ImageGenerationRequest",
        response="ImageGenerationResponse",
        routes="vllm_omni.entrypoints.openai.api_server",
        edits="edit_images",
    ),
    Served(
        package="sglang",
        classes="sglang.multimodal_gen.runtime.entrypoints.openai.protocol",
        request="ImageGenerationsRequest",
        response="ImageResponse",
        routes="sglang.multimodal_gen.runtime.entrypoints.openai.image_api",
        edits="edits",
    ),
)
