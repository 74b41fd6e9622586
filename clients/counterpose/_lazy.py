"""Names of a package that are imported on first use (PEP 562): a program pays only for what it uses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
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
