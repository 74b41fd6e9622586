"""The folders of the perturber's base and adapter, and the names of their weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from counterpose_core.blobs import digest
from counterpose_core.contract.base import ModelIdentity
from counterpose_core.suite import PerturberSuite
from counterpose_services.models.model_folder import folder_revision
from counterpose_services.models.weights import weights_folder
from counterpose_services.perturber.fitting_adapter import require_fitting_adapter


@dataclass(frozen=True)
class ModelFolders:
    """Where base and adapter are, and what answers made with the adapter or the base alone are named."""

    base: Path
    adapter: Path | None
    identity: ModelIdentity
    base_identity: ModelIdentity


def model_folders(suite: PerturberSuite, root: Path) -> ModelFolders:
    """Find the folders that a suite names.

    Raises:
        UnknownModel: there is no such folder.
        ModelFormatRefused: its weights are not safetensors, or the adapter does not fit the base.
    """
    folder = weights_folder(root, suite.model, suite.published)
    alone = ModelIdentity(id=suite.model, revision=folder_revision(folder))
    if suite.adapter is None:
        return ModelFolders(folder, None, alone, alone)
    adapter = weights_folder(root, suite.adapter, suite.published)
    require_fitting_adapter(adapter, folder, name=suite.adapter, base_name=suite.model)
    both = digest(f"{alone.revision} {folder_revision(adapter)}".encode())
    named = ModelIdentity(id=f"{alone.id}+{suite.adapter}", revision=both)
    return ModelFolders(folder, adapter, named, alone)
