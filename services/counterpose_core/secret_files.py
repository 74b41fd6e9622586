"""The file of the secret that gateway and services share."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IROTH | stat.S_IWOTH


def read_secret(path: Path, *, variable: str = "COUNTERPOSE_SECRET_FILE") -> str:
    """Return the secret in ``path``, which ``variable`` names, without white space around it.

    Raises:
        ValueError: there is no such file, or every user of the machine can read or replace its content.
    """
    if not path.is_file():
        raise ValueError(f"there is no secret in {str(path)!r}; set {variable}")
    # A group may read it, as Kubernetes mounts a secret for the group of the pod. Windows has no such bits.
    if os.name == "posix" and path.stat().st_mode & _OTHERS:
        raise ValueError(f"every user can read or change the secret in {str(path)!r}; run chmod 600 on it")
    return path.read_text(encoding="utf-8").strip()
