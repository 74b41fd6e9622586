"""Settings of the services: one frozen object per process; only this module reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from faultline_core.secret_files import read_secret
from faultline_core.types import is_loopback

ServiceName = Literal["captioner", "perturber", "editor", "scorer", "classifiers"]

SHARED_PREFIX = "FAULTLINE_"
OWN_PREFIX = "FAULTLINE_SERVICES_"
SHARED_WITH_GATEWAY = ("suite", "suite_root", "store_url", "secret", "secret_file", "state_dir")

# Not Serve's default 8000, which another Serve on this machine may use.
DEFAULT_PORT = 8101
DEFAULT_STATE_DIR = ".faultline"
# 128 bits if they are random; shorter secrets could be guessed over HTTP.
SECRET_BYTES_AT_LEAST = 16
MEBIBYTE = 2**20
SUITE_PACKAGE = "faultline_miniature_suite"
SUITE_DISTRIBUTION = "faultline-miniature-suite"

AbsolutePath = Annotated[Path, AfterValidator(Path.absolute)]
"""Relative paths are resolved at once, because replicas may run in another folder."""


def embedded_suite_root() -> Path:
    """Return the folder of the embedded suite's weights: the clone's, or else the installed distribution's.

    If there is neither, return the folder that a clone would have.
    """
    in_tree = Path(str(resources.files("faultline_miniature"))) / "suite" / "weights"
    # The clone's weights come first, because they may be newer than the installed ones.
    if in_tree.is_dir() or find_spec(SUITE_PACKAGE) is None:
        return in_tree
    return Path(str(resources.files(SUITE_PACKAGE))) / "weights"


class ServiceSettings(BaseModel):
    """The settings of the services; a missing value is read from the environment or has its default."""

    # A misspelt setting must not silently mean the default.
    model_config = ConfigDict(frozen=True, extra="forbid")

    suite: str = Field(
        default="miniature", description="Name of the model suite; the gateway must use the same one."
    )
    suite_root: AbsolutePath = Field(
        default_factory=embedded_suite_root,
        description="Folder with a subfolder of weights for each of the suite's model names; by default "
        "the embedded miniature suite.",
    )
    state_dir: AbsolutePath = Field(
        description="Folder for the store and the secret, unless these are set separately."
    )
    store_url: str = Field(
        description="Folder or URL of the blob store; the gateway must see the same one. By default "
        "`store` in `state_dir`."
    )
    secret: SecretStr | None = Field(
        default=None,
        exclude=True,
        description="Secret of every call, at least 16 characters, or null to read it from `secret_file`.",
    )
    secret_file: AbsolutePath = Field(
        description="File that holds that secret; by default `secret` in `state_dir`."
    )

    host: str = Field(default="127.0.0.1", description="Address that Ray Serve listens on.")
    port: int = Field(default=DEFAULT_PORT, ge=1, le=65535, description="Port that Ray Serve listens on.")
    device: str = Field(
        default="cpu",
        pattern=r"^(cpu|cuda(:\d+)?)$",
        description="Device of the models: `cpu`, `cuda` or `cuda:<index>`.",
    )
    dtype: Literal["float32", "float16", "bfloat16"] = Field(
        default="float32", description="Precision of the models' weights and activations."
    )
    threads: int = Field(default=1, ge=1, le=256, description="CPU threads of one replica.")
    # Ray reserves this, whatever is used: five services must start on a laptop's two cores.
    num_cpus: float = Field(default=0.1, ge=0.0, description="CPUs that Ray reserves for one replica.")
    num_gpus: float = Field(
        default=0.0, ge=0.0, description="GPUs that Ray reserves for one replica; a fraction shares one."
    )
    min_replicas: int = Field(
        default=1, ge=0, le=1000, description="Smallest number of replicas of each service."
    )
    max_replicas: int = Field(
        default=1, ge=1, le=1000, description="Largest number of replicas of each service."
    )
    max_queue: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Largest number of requests that a replica holds; more are refused as rate-limited.",
    )
    # A hop through Serve takes 4 to 6 ms, so calls that were sent together arrive within 10 ms.
    batch_wait_s: float = Field(
        default=0.01, ge=0.0, le=1.0, description="Seconds that a call waits for others to share its batch."
    )
    request_timeout_s: float = Field(
        default=600.0, gt=0.0, description="Seconds after which a request ends with an error."
    )
    health_timeout_s: float = Field(
        default=60.0,
        gt=0.0,
        description="Seconds after which Ray counts an unanswered health check as failed.",
    )

    models_folder: AbsolutePath | None = Field(
        default=None, description="Folder with the user's `local:<name>` checkpoints, or null for none."
    )
    label_map: AbsolutePath | None = Field(
        default=None,
        description="JSON file that maps each dataset class to classes of a classifier's head, or null "
        "for none.",
    )
    oip_hosts: tuple[str, ...] = Field(
        default=(),
        description="Hosts that remote classifiers may run on, as `host` or `host:port` separated by "
        "commas; empty for none. This machine's own need a port.",
    )
    oip_seconds: float = Field(
        default=30.0,
        gt=0.0,
        description="Seconds within which a remote classifier or a function must have answered whole.",
    )
    oip_answer_bytes: int = Field(
        default=64 * MEBIBYTE, ge=1024, description="Most bytes of a remote classifier's answer."
    )
    # Room for a ViT-L in float32 (1.2 GB) and several ResNet-50s (0.1 GB each).
    model_cache_bytes: int = Field(
        default=2048 * MEBIBYTE, ge=0, description="Memory for loaded classifiers, in bytes."
    )

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
            raise ValueError(
                f"max_replicas {self.max_replicas!r} is below min_replicas {self.min_replicas!r}; raise it"
            )
        if bare := [host for host in self.oip_hosts if is_loopback(host)]:
            raise ValueError(
                f"oip_hosts names {bare[0]!r}, which would open every port of this machine; name "
                f"'{bare[0]}:<port>'. The SDK's own functions need no entry"
            )
        if self.secret is not None and len(self.secret.get_secret_value()) < SECRET_BYTES_AT_LEAST:
            raise ValueError(
                f"the shared secret has fewer than {SECRET_BYTES_AT_LEAST} characters; use a longer one"
            )
        return self

    def shared_secret(self) -> str:
        """Return the secret that every call must have.

        Raises:
            ValueError: there is neither ``secret`` nor ``secret_file``, or others can read the file.
        """
        if self.secret is not None:
            return self.secret.get_secret_value()
        return read_secret(self.secret_file)


def from_environment(fields: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """Read ``fields`` from ``environ``, by the names shared with the gateway or by our own names."""
    found: dict[str, object] = {}
    for field in fields:
        prefix = SHARED_PREFIX if field in SHARED_WITH_GATEWAY else OWN_PREFIX
        value = environ.get(prefix + field.upper())
        if value:
            found[field] = tuple(value.split(",")) if field == "oip_hosts" else value
    return found
