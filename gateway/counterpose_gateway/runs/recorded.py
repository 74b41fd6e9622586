"""Reading what another version of Counterpose recorded: what it lacks gets its default, or is named."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from counterpose_core.contract.runs import Run
from counterpose_core.errors import ArtifactCorrupt

ConfigT = TypeVar("ConfigT", bound=BaseModel)

_MOST_NAMED = 3


def recorded_config(shape: type[ConfigT], run: Run) -> ConfigT:
    """Return the configuration that a run was resolved to.

    Raises:
        ArtifactCorrupt: this version cannot read it; the fields and the version that wrote it are named.
    """
    try:
        return shape.model_validate(run.resolved_config)
    except ValidationError as error:
        fields = [".".join(map(str, each["loc"])) for each in error.errors()[:_MOST_NAMED]]
        versions = run.resolved_config.get("versions")
        version = versions.get("counterpose") if isinstance(versions, dict) else None
        raise ArtifactCorrupt(
            f"this version of Counterpose cannot read the configuration of run {run.id!r}, recorded by "
            f"{f'version {version}' if version else 'an unknown version'}: {', '.join(fields)}; read the run "
            "with that version, or make it again"
        ) from error
