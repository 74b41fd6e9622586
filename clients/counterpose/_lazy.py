"""Names of a package that are imported on first use (PEP 562): a program pays only for what it uses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package.

    __getattr__ = lazily(__name__, {"counterpose._sync.client": ("Client",)})

    Args:
        package: the package's name.
        homes: the names that each module lends to the package; a name may be a submodule.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = importlib.import_module(home_of[name])
        found = getattr(home, name, None) or importlib.import_module(f"{home_of[name]}.{name}")
        # The next access does not come here.
        setattr(sys.modules[package], name, found)
        return found

    return get


class _Resource(cached_property[Any]):
    def __init__(self, module: str) -> None:
        super().__init__(self._make)
        self._module = module

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        self._name, self._owner = name, owner

    def _make(self, client: Any) -> Any:
        package = self._owner.__module__.rpartition(".")[0]
        home = importlib.import_module(f"{package}.{self._module or self._name}")
        return getattr(home, self._owner.__annotations__[self._name])(client)


def resource(module: str = "") -> Any:
    """Return a client's attribute whose class is imported and made on first use; its annotation names it.

    Args:
        module: where the class is, beside the client; default: the module with the attribute's name.
    """
    return _Resource(module)
