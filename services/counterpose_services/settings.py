"""Settings of the services: one frozen object per process; only this module reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator

from counterpose_core.secret_files import read_secret
from counterpose_core.suite import load_suite
from counterpose_core.suite_servers import SuiteServers
from counterpose_core.tracing import ENDPOINT_VARIABLE
from counterpose_core.types import ServiceName
from counterpose_services.outbound.hosts import bare_loopback
from counterpose_services.service_options import (
    FLOAT32_SERVICES,
    GPU_SHARE,
    QUEUE_FACTORS,
    Device,
    Precision,
    ResolvedOptions,
    ServiceOptions,
    default_dtype,
)

__all__ = ["SERVICES", "ServiceName", "ServiceSettings", "embedded_suite_root", "from_environment"]

SERVICES: tuple[ServiceName, ...] = get_args(ServiceName)
SHARED_PREFIX = "COUNTERPOSE_"
OWN_PREFIX = "COUNTERPOSE_SERVICES_"
SHARED_WITH_GATEWAY = (
    *("suite", "suite_root", "store_url", "secret", "secret_file", "state_dir"),
    *SuiteServers.model_fields,
)
HOST_LISTS = ("oip_hosts", "openai_hosts", "images_hosts")
LISTS = (*HOST_LISTS, "allowed_licences")

# Not Serve's default 8000, which another Serve on this machine may use.
DEFAULT_PORT = 8101
DEFAULT_STATE_DIR = ".counterpose"
# 128 bits if they are random; shorter secrets could be guessed over HTTP.
SECRET_BYTES_AT_LEAST = 16
MEBIBYTE = 2**20
SUITE_PACKAGE = "counterpose_miniature_suite"
SUITE_DISTRIBUTION = "counterpose-miniature-suite"

AbsolutePath = Annotated[Path, AfterValidator(Path.absolute)]
"""Relative paths are resolved at once, because replicas may run in another folder."""


def embedded_suite_root() -> Path:
    """Return the folder of the embedded suite's weights: the clone's, or else the installed distribution's.

    If there is neither, return the folder that a clone would have.
    """
    in_tree = Path(str(resources.files("counterpose_miniature"))) / "suite" / "weights"
    # The clone's weights come first, because they may be newer than the installed ones.
    if in_tree.is_dir() or find_spec(SUITE_PACKAGE) is None:
        return in_tree
    return Path(str(resources.files(SUITE_PACKAGE))) / "weights"


class ServiceSettings(SuiteServers, frozen=True, extra="forbid"):
    """The settings of the services; a missing value is read from the environment or has its default."""

    # A misspelt setting must not silently mean the default.

    suite: str = "miniature"
    """Name of the model suite; the gateway must use the same one."""
    suite_root: AbsolutePath = Field(default_factory=embedded_suite_root)
    """Folder with a subfolder of weights for each of the suite's model names; by default the embedded
    miniature suite."""
    state_dir: AbsolutePath
    """Folder for the store and the secret, unless these are set separately."""
    store_url: str
    """Folder or URL of the blob store; the gateway must see the same one. By default `store` in
    `state_dir`."""
    secret: SecretStr | None = Field(default=None, exclude=True)
    """Secret of every call, at least 16 characters, or null to read it from `secret_file`."""
    secret_file: AbsolutePath
    """File that holds that secret; by default `secret` in `state_dir`."""

    host: str = "127.0.0.1"
    """Address that Ray Serve listens on."""
    port: int = Field(default=DEFAULT_PORT, ge=1, le=65535)
    """Port that Ray Serve listens on."""
    device: Device = "cpu"
    """Device of the models: `cpu`, `cuda` or `cuda:<index>`."""
    dtype: Precision | None = None
    """Precision of the models of captioner, perturber and editor: `float32`, `float16` or `bfloat16`; by
    default `float16` on a GPU and `float32` on a CPU. Scorer and classifiers compute in `float32`."""
    threads: int = Field(default=1, ge=1, le=256)
    """CPU threads of one replica."""
    # Ray reserves this, whatever is used: five services must start on a laptop's two cores.
    num_cpus: float = Field(default=0.1, ge=0.0)
    """CPUs that Ray reserves for one replica."""
    num_gpus: float | None = Field(
        default=None,
        ge=0.0,
        description="GPUs that Ray reserves for one replica; a fraction shares one. By default "
        f"{GPU_SHARE:g} for a service on a GPU, so that five share one.",
    )
    min_replicas: int = Field(default=1, ge=0, le=1000)
    """Smallest number of replicas of each service."""
    max_replicas: int = Field(default=1, ge=1, le=1000)
    """Largest number of replicas of each service."""
    max_queue: int = Field(default=64, ge=1, le=10_000)
    """Largest number of requests that a replica holds; more are refused as rate-limited. A replica of the
    classifiers holds eight times as many."""
    # A hop through Serve takes 4 to 6 ms, so calls that were sent together arrive within 10 ms.
    batch_wait_s: float = Field(default=0.01, ge=0.0, le=1.0)
    """Seconds that a call waits for others to share its batch."""
    request_timeout_s: float = Field(default=600.0, gt=0.0)
    """Seconds after which a request ends with an error."""
    health_timeout_s: float = Field(default=60.0, gt=0.0)
    """Seconds after which Ray counts an unanswered health check as failed."""

    upscale_delay_s: float = Field(default=30.0, ge=0.0)
    """Seconds for which a service must be too busy before it grows."""
    downscale_delay_s: float = Field(default=600.0, ge=0.0)
    """Seconds for which a service must have too little work before it shrinks; at least two starts."""

    captioner: ServiceOptions = ServiceOptions()
    """The captioner's own settings."""
    perturber: ServiceOptions = ServiceOptions()
    """The perturber's own settings."""
    editor: ServiceOptions = ServiceOptions()
    """The editor's own settings."""
    scorer: ServiceOptions = ServiceOptions()
    """The scorer's own settings."""
    classifiers: ServiceOptions = ServiceOptions()
    """The classifiers' own settings."""

    allowed_licences: tuple[str, ...] = ()
    """Gated or non-commercial models that may be used, by their names, repositories or licences, separated by
    commas; empty for none."""
    safety_checker: AbsolutePath | None = None
    """Folder of a safety checker as diffusers saves it (`safety_checker` of Stable Diffusion with its
    `preprocessor_config.json`), which judges each image that the editor makes; null for none."""
    models_folder: AbsolutePath | None = None
    """Folder with the user's `local:<name>` checkpoints, or null for none."""
    label_map: AbsolutePath | None = None
    """JSON file that maps each dataset class to classes of a classifier's head, or null for none."""
    oip_hosts: tuple[str, ...] = ()
    """Hosts that remote classifiers may run on, as `host` or `host:port` separated by commas; empty for none.
    This machine's own need a port."""
    oip_seconds: float = Field(default=30.0, gt=0.0)
    """Seconds within which a remote classifier or a function must have answered whole."""
    oip_answer_bytes: int = Field(default=64 * MEBIBYTE, ge=1024)
    """Most bytes of a remote classifier's answer."""
    openai_hosts: tuple[str, ...] = ()
    """Hosts that a suite's `server` of language models may run on, as `oip_hosts`."""
    openai_key_file: AbsolutePath | None = None
    """File with the key of that server, which only its owner may read, or null for none."""
    openai_seconds: float = Field(default=120.0, gt=0.0)
    """Seconds within which a language model's server must have answered a request whole, with all further
    tries."""
    openai_answer_bytes: int = Field(default=4 * MEBIBYTE, ge=1024)
    """Most bytes of such an answer."""
    # Beyond about this many sequences, vLLM's tokens/s of a 7B model on one GPU hardly grow.
    openai_in_flight: int = Field(default=64, ge=1, le=1024)
    """Most requests that a replica has at that server at once."""
    images_hosts: tuple[str, ...] = ()
    """Hosts that a suite's `server` of images may run on, as `oip_hosts`."""
    images_key_file: AbsolutePath | None = None
    """File with the key of that server, which only its owner may read, or null for none."""
    images_seconds: float = Field(default=300.0, gt=0.0)
    """Seconds within which a server of images must have answered a request whole, with all further tries."""
    images_answer_bytes: int = Field(default=64 * MEBIBYTE, ge=1024)
    """Most bytes of such an answer: an image of 16 megapixels can have 64 MiB as a PNG in base64."""
    images_in_flight: int = Field(default=8, ge=1, le=1024)
    """Most requests that a replica has at that server at once."""
    vllm: AbsolutePath | None = None
    """The program `vllm` of an environment of its own, which a service starts for an engine `vllm`, or null
    for none."""
    vllm_arguments: str = ""
    """Further arguments of `vllm serve`, as a shell reads them."""
    otlp_endpoint: str | None = None
    """Address of a collector that traces are sent to by OTLP over HTTP; null for no traces."""
    # Room for a ViT-L in float32 (1.2 GB) and several ResNet-50s (0.1 GB each).
    model_cache_bytes: int = Field(default=2048 * MEBIBYTE, ge=0)
    """Memory for loaded classifiers, in bytes."""

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
        for service in SERVICES:
            _require_consistent(service, self.of(service))
            _require_start(service, self.of(service), self)
        for field in HOST_LISTS:
            if bare := bare_loopback(getattr(self, field)):
                raise ValueError(
                    f"{field} names {bare!r}, which would open every port of this machine; name "
                    f"'{bare}:<port>'. The SDK's own functions need no entry"
                )
        if self.secret is not None and len(self.secret.get_secret_value()) < SECRET_BYTES_AT_LEAST:
            raise ValueError(
                f"the shared secret has fewer than {SECRET_BYTES_AT_LEAST} characters; use a longer one"
            )
        return self

    def of(self, service: ServiceName) -> ResolvedOptions:
        """Return the settings in force for ``service``: its own, else the common ones."""
        own: ServiceOptions = getattr(self, service)
        device = own.device or self.device
        shares = self.num_gpus if own.num_gpus is None else own.num_gpus
        if shares is None or (device == "cpu" and own.num_gpus is None):
            shares = GPU_SHARE if device != "cpu" else 0.0
        return ResolvedOptions(
            device=device,
            dtype=own.dtype or default_dtype(service, device, self.dtype),
            num_gpus=shares,
            min_replicas=self.min_replicas if own.min_replicas is None else own.min_replicas,
            max_replicas=self.max_replicas if own.max_replicas is None else own.max_replicas,
            max_queue=own.max_queue or self.max_queue * QUEUE_FACTORS.get(service, 1),
            start_s=own.start_s,
            tf32=False if service in FLOAT32_SERVICES and own.tf32 is None else own.tf32,
            compile=bool(own.compile),
            node_group=own.node_group,
        )

    def shared_secret(self) -> str:
        """Return the secret that every call must have.

        Raises:
            ValueError: there is neither ``secret`` nor ``secret_file``, or others can read the file.
        """
        if self.secret is not None:
            return self.secret.get_secret_value()
        return read_secret(self.secret_file)


def _require_consistent(service: ServiceName, own: ResolvedOptions) -> None:
    """Raise ValueError if a service's settings contradict each other."""
    if own.max_replicas < own.min_replicas:
        raise ValueError(
            f"max_replicas {own.max_replicas!r} of the {service} is below its min_replicas "
            f"{own.min_replicas!r}; raise it"
        )
    if service in FLOAT32_SERVICES and own.dtype != "float32":
        raise ValueError(
            f"the {service} computes in float32 only, not {own.dtype}; unset {own_variable(service, 'dtype')}"
        )
    if service in FLOAT32_SERVICES and own.tf32:
        raise ValueError(
            f"the {service} computes in float32 only, not TF32; unset {own_variable(service, 'tf32')}"
        )
    if own.compile and service != "editor":
        raise ValueError(
            f"only the editor compiles its network, the {service} does not; unset "
            f"{own_variable(service, 'compile')}"
        )
    if own.on_gpu and own.num_gpus == 0:
        raise ValueError(
            f"the {service} is on {own.device!r}, but Ray hides every GPU from a replica that reserves none; "
            f"set {own_variable(service, 'num_gpus')} above 0"
        )


def _require_start(service: ServiceName, own: ResolvedOptions, settings: ServiceSettings) -> None:
    """Raise ValueError if a service may have no replica, and how long one takes to start is unknown.

    A service that the suite does not have never starts.
    """
    variable, timeout_s = own_variable(service, "start_s"), settings.request_timeout_s
    unknown = own.min_replicas == 0 and own.start_s is None
    if unknown and service in load_suite(settings.suite, settings).services:
        raise ValueError(
            f"min_replicas of the {service} is 0: its first call waits for a replica; set {variable} to the "
            "seconds that `counterpose-services check --load` prints, or min_replicas to 1"
        )
    if own.start_s is not None and own.start_s > timeout_s / 2:
        raise ValueError(
            f"start_s {own.start_s:g} of the {service} leaves less than half of request_timeout_s "
            f"{timeout_s:g} for its first call; raise COUNTERPOSE_SERVICES_REQUEST_TIMEOUT_S and "
            "COUNTERPOSE_CALL_SECONDS"
        )


def own_variable(service: ServiceName, field: str) -> str:
    """Return the variable of a service's own setting, such as ``COUNTERPOSE_EDITOR_DEVICE``."""
    return f"{SHARED_PREFIX}{service.upper()}_{field.upper()}"


def variable(field: str) -> str:
    """Return the environment variable of a setting of all services."""
    if field == "otlp_endpoint":
        return ENDPOINT_VARIABLE
    return (SHARED_PREFIX if field in SHARED_WITH_GATEWAY else OWN_PREFIX) + field.upper()


def from_environment(fields: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """Read ``fields`` from ``environ``, by the names shared with the gateway or by our own names."""
    found: dict[str, object] = {}
    for field in fields:
        if field in SERVICES:
            if own := _own_options(field, environ):
                found[field] = own
            continue
        value = environ.get(variable(field))
        if value:
            found[field] = tuple(value.split(",")) if field in LISTS else value
    return found


def _own_options(service: ServiceName, environ: Mapping[str, str]) -> dict[str, str]:
    names = {field: own_variable(service, field) for field in ServiceOptions.model_fields}
    return {field: environ[name] for field, name in names.items() if environ.get(name)}
