"""Settings of the services: one frozen object a process, the environment read in one place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

ServiceName = Literal["captioner", "perturber", "editor", "scorer", "classifiers"]

SHARED_PREFIX = "FAULTLINE_"
OWN_PREFIX = "FAULTLINE_SERVICES_"
SHARED_WITH_GATEWAY = ("suite", "suite_root", "store_url", "secret", "secret_file", "state_dir")

# Not Serve's own 8000, where another Serve of this machine may be listening.
DEFAULT_PORT = 8101
DEFAULT_STATE_DIR = ".faultline"
# 128 bits where they are random; shorter ones can be tried out over HTTP.
SECRET_BYTES_AT_LEAST = 16
MEBIBYTE = 2**20

AbsolutePath = Annotated[Path, AfterValidator(Path.absolute)]
"""Replicas may run in another folder than the one that was written down in."""


def _embedded_suite_root() -> Path:
    return Path(str(resources.files("faultline_miniature"))) / "suite" / "weights"


class ServiceSettings(BaseModel):
    """What every service is told; a field left out is read from the environment, then defaulted.

    ``state_dir`` holds the store and the secret unless those are named themselves; ``suite_root`` is
    where the suite's model names are folders; ``models_folder`` holds a user's
    ``local:<name>`` checkpoints; ``label_map`` is a JSON file {dataset class: [head classes]};
    ``oip_hosts`` are the only hosts a remote classifier may live on, ``host[:port]``.
    """

    # A misspelt setting must not quietly mean the default.
    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str = "miniature"
    suite_root: AbsolutePath = Field(default_factory=_embedded_suite_root)
    state_dir: AbsolutePath
    store_url: str
    secret: SecretStr | None = Field(default=None, exclude=True)
    secret_file: AbsolutePath

    host: str = "127.0.0.1"
    port: int = Field(default=DEFAULT_PORT, ge=1, le=65535)
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    threads: int = Field(default=1, ge=1, le=256)
    # What Ray reserves, not what is used: five services must start on a laptop's two cores.
    num_cpus: float = Field(default=0.1, ge=0.0)
    num_gpus: float = Field(default=0.0, ge=0.0)
    min_replicas: int = Field(default=1, ge=0, le=1000)
    max_replicas: int = Field(default=1, ge=1, le=1000)
    max_queue: int = Field(default=64, ge=1, le=10_000)
    # A hop through Serve costs 4 to 6 ms: calls that were sent together arrive within 10.
    batch_wait_s: float = Field(default=0.01, ge=0.0, le=1.0)
    request_timeout_s: float = Field(default=600.0, gt=0.0)
    health_timeout_s: float = Field(default=60.0, gt=0.0)

    models_folder: AbsolutePath | None = None
    label_map: AbsolutePath | None = None
    oip_hosts: tuple[str, ...] = ()
    # Room for a ViT-L in float32 (1.2 GB) and several ResNet-50s (0.1 GB each).
    model_cache_bytes: int = Field(default=2048 * MEBIBYTE, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _complete_from_environment(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        values = from_environment(cls.model_fields, os.environ) | dict(given)
        state = Path(str(values.setdefault("state_dir", DEFAULT_STATE_DIR))).absolute()
        return {"store_url": str(state / "store"), "secret_file": state / "secret"} | values

    @field_validator("store_url")
    @classmethod
    def _absolute_unless_remote(cls, value: str) -> str:
        return value if "://" in value else str(Path(value).absolute())

    @model_validator(mode="after")
    def _safe(self) -> ServiceSettings:
        if self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas is below min_replicas")
        if self.secret is not None and len(self.secret.get_secret_value()) < SECRET_BYTES_AT_LEAST:
            raise ValueError(f"the shared secret has fewer than {SECRET_BYTES_AT_LEAST} characters")
        return self

    def shared_secret(self) -> str:
        """Return the secret every call must carry.

        Raises:
            ValueError: neither ``secret`` nor ``secret_file`` is there.
        """
        if self.secret is not None:
            return self.secret.get_secret_value()
        if not self.secret_file.is_file():
            raise ValueError(f"no secret in {str(self.secret_file)!r}: set FAULTLINE_SECRET_FILE")
        return self.secret_file.read_text(encoding="utf-8").strip()


def from_environment(fields: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """Read what ``environ`` says of ``fields``, under the names the gateway shares or under our own."""
    found: dict[str, object] = {}
    for field in fields:
        prefix = SHARED_PREFIX if field in SHARED_WITH_GATEWAY else OWN_PREFIX
        value = environ.get(prefix + field.upper())
        if value:
            found[field] = tuple(value.split(",")) if field == "oip_hosts" else value
    return found
