"""Renders a kustomization with the few of kustomize's features that ours use; refuses the others."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
OVERLAYS = ("api", "gpu", "laptop", "photographs")
KNOWN = {
    "apiVersion",
    "kind",
    "resources",
    "components",
    "configMapGenerator",
    "generatorOptions",
    "patches",
}
# A strategic merge of built-in kinds merges lists by keys; of a custom resource, it is a JSON merge patch.
CUSTOM_KINDS = {"RayService"}
LIST_KEYS = {"containers": "name", "env": "name", "ports": "containerPort"}
"""The lists of a Deployment that are merged by a key of their entries; others are not patched here."""


def documents(file: Path) -> list[Document]:
    """Return the documents of a file."""
    return [found for found in yaml.safe_load_all(file.read_text(encoding="utf-8")) if found]


def overlay(name: str, *components: str) -> list[Document]:
    """Return what kustomize makes of an overlay, with ``components`` that it does not list itself."""
    found = _applied(K8S / "overlays" / name, [])
    for component in components:
        found = _applied(K8S / "components" / component, found)
    # Anchors in a file make one object of several places: a test that changes one must not change all.
    rendered: list[Document] = json.loads(json.dumps(found))
    return rendered


def config_map(found: list[Document], name: str) -> dict[str, str]:
    """Return the variables of a config map."""
    (data,) = (each["data"] for each in found if each["kind"] == "ConfigMap" and named(each) == name)
    return dict(data)


def ray_service(found: list[Document]) -> Document:
    """Return the one RayService."""
    (service,) = (each for each in found if each["kind"] == "RayService")
    return service


def named(document: Document) -> str:
    """Return a document's name."""
    return str(document["metadata"]["name"])


def _applied(folder: Path, found: list[Document]) -> list[Document]:
    (kustomization,) = documents(folder / "kustomization.yaml")
    unknown = set(kustomization) - KNOWN
    assert not unknown, f"{folder}: this renderer does not know {unknown}"
    found = copy.deepcopy(found)
    for resource in kustomization.get("resources", ()):
        path = folder / resource
        found += _applied(path, []) if path.is_dir() else documents(path)
    for component in kustomization.get("components", ()):
        found = _applied(folder / component, found)
    for generator in kustomization.get("configMapGenerator", ()):
        _generate(folder, generator, found)
    for patch in kustomization.get("patches", ()):
        (change,) = documents(folder / patch["path"])
        known = change["kind"] in {*CUSTOM_KINDS, "Deployment"}
        assert known, f"{folder}: a patch of {change['kind']} is not known"
        (target,) = (each for each in found if (each["kind"], named(each)) == (change["kind"], named(change)))
        merge = merged if change["kind"] in CUSTOM_KINDS else strategically_merged
        found[found.index(target)] = merge(target, change)
    return found


def _generate(folder: Path, generator: Document, found: list[Document]) -> None:
    lines = [str(line) for line in generator.get("literals", ())]
    for file in generator.get("envs", ()):
        lines += (folder / file).read_text(encoding="utf-8").splitlines()
    data = dict(line.split("=", 1) for line in lines)
    for file in generator.get("files", ()):
        data[file] = (folder / file).read_text(encoding="utf-8")
    if generator.get("behavior") == "merge":
        (target,) = (
            each for each in found if each["kind"] == "ConfigMap" and named(each) == generator["name"]
        )
        target["data"] |= data
    else:
        metadata = {"name": generator["name"], **generator.get("options", {})}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def merged(target: Any, change: Any) -> Any:
    """Return ``target`` after a JSON merge patch (RFC 7396)."""
    if not isinstance(change, dict):
        return change
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def strategically_merged(target: Any, change: Any, name: str = "") -> Any:
    """Return ``target`` after a strategic merge patch that only sets and adds; new entries come first."""
    if isinstance(change, dict):
        own = target if isinstance(target, dict) else {}
        return own | {key: strategically_merged(own.get(key), value, key) for key, value in change.items()}
    if not isinstance(change, list) or target is None:
        return change
    key = LIST_KEYS[name]
    changes = {entry[key]: entry for entry in change}
    known = {entry[key] for entry in target}
    return [entry for entry in change if entry[key] not in known] + [
        strategically_merged(entry, changes[entry[key]]) if entry[key] in changes else entry
        for entry in target
    ]
