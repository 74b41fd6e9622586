"""The programs that a stack runs: those of this environment, or those on PATH."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from counterpose_core.errors import InvalidRequest
from counterpose_core.installation import adding

GATEWAY, SERVICES = "counterpose-gateway", "counterpose-services"
NEEDED = ("fastapi", "sqlalchemy", "ray", "torch", "diffusers")
"""Packages of the extras. The programs prove nothing: an install without extras brings them too."""


@dataclass(frozen=True)
class Programs:
    """The folder of the installed programs and the Python that runs them."""

    folder: Path
    python: Path

    @classmethod
    def installed(cls) -> Programs:
        """Find the programs of this environment, else those on PATH.

        Raises:
            InvalidRequest: there are none, or packages that they need are missing.
        """
        own = Path(sys.executable).parent
        if (own / GATEWAY).exists() and (own / SERVICES).exists():
            if missing := [name for name in NEEDED if find_spec(name) is None]:
                message = (
                    f"Counterpose's services need packages that are not installed ({', '.join(missing)})"
                )
                raise InvalidRequest(f"{message}: {adding('all')}")
            return cls(own, Path(sys.executable))
        found = shutil.which(SERVICES)
        if found is None or not Path(found).with_name(GATEWAY).exists():
            raise InvalidRequest(f"{GATEWAY} and {SERVICES} are not installed: {adding('all')}")
        return cls.of(Path(found).parent)

    @classmethod
    def of(cls, folder: Path) -> Programs:
        """Take the programs of a folder, such as another environment's ``bin``."""
        return cls(folder, folder / "python")

    def command(self, name: str, *arguments: str) -> list[str]:
        """Return the command line of an installed program."""
        return [str(self.folder / name), *arguments]

    def module(self, name: str, *arguments: str) -> list[str]:
        """Return the command line of a Python module."""
        # Without -P a file of the current folder, such as ray.py, would be imported in place of a library.
        return [str(self.python), "-P", "-m", name, *arguments]
