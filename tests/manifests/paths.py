"""Folders that variables name: mounted, writable where something is written, or in the image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from manifests.operator import MadePod, made_pods
from manifests.rendering import ROOT, Document, config_map

TOKENS = "COUNTERPOSE_CLUSTER_TOKEN_FILES"
"""The gateway alone submits jobs."""
WRITTEN = ("COUNTERPOSE_STATE_DIR", "COUNTERPOSE_STORE_URL", "HF_HOME", "HOME")


def paths(found: list[Document]) -> Iterator[str]:
    """Yield every path in a variable that its pod does not have, or cannot write."""
    for pod in made_pods(found):
        # The head only builds the applications.
        if pod.labels.get("ray.io/node-type") == "head":
            continue
        told = config_map(found, "counterpose-services" if pod.serves else "counterpose-gateway")
        for name, value in told.items():
            if value.startswith("/") and (name != TOKENS or pod.origin == "gateway"):
                yield from _wrong(pod, name, Path(value))


def _wrong(pod: MadePod, name: str, path: Path) -> Iterator[str]:
    for container in pod.spec["containers"]:
        mounts = {Path(mount["mountPath"]): mount for mount in container["volumeMounts"]}
        covering = next((mounts[folder] for folder in (path, *path.parents) if folder in mounts), None)
        if covering is None:
            if name in WRITTEN or not in_an_image(path):
                yield f"{pod.origin}: {name} is {path}, which no volume has"
        elif name in WRITTEN and covering.get("readOnly", False):
            yield f"{pod.origin}: {name} is {path}, which cannot be written"


def in_an_image(path: Path) -> bool:
    """Return whether a program of this path is in an environment that the Dockerfile makes."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    return bool(re.search(rf"venv {re.escape(str(path.parents[1]))}\b", text)) and path.parent.name == "bin"
