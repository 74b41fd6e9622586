"""Settings of the gateway: one frozen object per process, read from the environment by one function."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from counterpose_core.images.file_structure import MAX_CHUNKS
from counterpose_core.secret_files import read_secret
from counterpose_core.suite_servers import SuiteServers
from counterpose_core.tracing import ENDPOINT_VARIABLE
from counterpose_core.types import Name, is_loopback

PREFIX = "COUNTERPOSE_"
SigningAlgorithm = Literal["es256", "es384", "es512", "ps256", "ps384", "ps512", "ed25519"]
STATE_DIR = Path(".counterpose")
# 16 random letters cannot be guessed over a network; shorter keys tend to be words.
KEY_CHARACTERS_AT_LEAST = 16
SERVICE_PLACEHOLDER = "{service}"
RAY_VERSIONS = ("2.60",)
"""The versions of Ray whose jobs API the tests hold the gateway to."""
OTHERS = ""
"""The name under which `cluster_token_files` has a path that was given without one."""


class GatewaySettings(SuiteServers, frozen=True, extra="forbid"):
    """The settings of ``counterpose-gateway serve`` and ``work``."""

    database_url: str = f"sqlite:///{STATE_DIR / 'ledger.db'}"
    """SQLAlchemy URL of the ledger: SQLite on one machine, PostgreSQL for several gateways."""
    store_url: str = str(STATE_DIR / "store")
    """Folder or URL of the blob store; the services must see the same one."""
    accept_ledger: bool = False
    """Whether a store that another ledger has written, or a newer state of this one, is taken over at the
    start instead of refused. Set it for one start: it would hide the next wrong ledger, too."""
    services_url: str = "http://127.0.0.1:8101"
    """Address of the services: either with `{service}` in it, or a prefix to which the name of a service is
    added as a path."""
    secret: SecretStr | None = None
    """Secret that the services require, or null to read it from `secret_file`."""
    secret_file: Path = STATE_DIR / "secret"
    """File that holds that secret."""
    suite: str = "miniature"
    """Name of the model suite; the services must load the same one."""
    host: str = "127.0.0.1"
    """Address to listen on; any address beyond loopback needs `api_keys`."""
    port: int = Field(default=8080, ge=1, le=65535)
    """Port to listen on."""
    api_keys: tuple[SecretStr, ...] = ()
    """Accepted API keys, separated by commas, of at least 16 characters each; empty to require none."""
    admin_port: int | None = Field(default=None, ge=1, le=65535)
    """Port of a listener of its own for operators, which alone has `/metrics` and `/access-log`; null for
    none: `/metrics` is then beside the API."""
    admin_host: str = "127.0.0.1"
    """Address of that listener; any address beyond loopback needs `admin_keys`."""
    admin_keys: tuple[SecretStr, ...] = ()
    """Keys that the operators' listener accepts, separated by commas, of at least 16 characters each; it
    accepts no others. Empty to require none."""
    allow_functions: bool | None = None
    """Whether a run may test functions that its caller's program serves on 127.0.0.1 of the services'
    machine; null where only this machine can ask: gateway and services listen on loopback, and no API key is
    needed."""
    max_body_bytes: int = Field(default=32_000_000, ge=1024)
    """Largest request body that is accepted, in bytes."""
    max_bodies_bytes: int = Field(default=64_000_000, ge=1024)
    """Most bytes of all request bodies that are held at once."""
    concurrent_uploads: int = Field(default=2, ge=1, le=64)
    """Requests with large bodies, of images, that are answered at once; the others wait."""
    max_png_chunks: int = Field(default=MAX_CHUNKS, ge=100)
    """Most chunks of a PNG file that is uploaded."""
    max_datasets: int = Field(default=1000, ge=1)
    """Most datasets of a tenant."""
    dataset_ttl_seconds: int | None = Field(default=None, ge=60)
    """Longest that a dataset is kept, in seconds: one that asks for no end gets this one, and a longer one is
    refused; null for no bound."""
    import_from: tuple[str, ...] = ()
    """Beginnings of the addresses that datasets may be imported from, separated by commas, such as
    `s3://bucket/,hf://datasets/,https://,file:///data/`; empty to import from none."""
    max_import_shards: int = Field(default=100_000, ge=1)
    """Most shards of one import."""
    max_dataset_images: int = Field(default=2_000_000, ge=1)
    """Most images of one dataset."""
    max_dataset_bytes: int = Field(default=20_000_000_000, ge=1)
    """Most bytes that the images of one dataset take as stored."""
    max_images: int = Field(default=5_000_000, ge=1)
    """Most images of all datasets of a tenant."""
    max_stored_bytes: int = Field(default=100_000_000_000, ge=1)
    """Most bytes that a tenant may have stored: the images of all its datasets, each dataset counted alone,
    files of tokens, images that were generated without a run, and what was deleted until it is erased."""
    max_header_bytes: int = Field(default=16_384, ge=1024)
    """Most bytes of a request's line and headers; what follows is not read."""
    max_headers: int = Field(default=100, ge=10)
    """Most headers of a request."""
    max_requests_in_flight: int = Field(default=200, ge=1)
    """Requests that the gateway serves at once; one more is refused as `rate-limited`. Health is always
    answered."""
    # Each takes 60 kB and a file descriptor.
    max_listeners: int = Field(default=2000, ge=1)
    """Event streams and waits that the gateway serves at once, beside the requests."""
    # 200 a second: a browser's wall of images asks for as many, our own clients for a tenth of it.
    requests_per_minute: int = Field(default=12_000, ge=0)
    """Requests that the holder of an API key may make in a minute, at once or evenly, to this process; 0 for
    no limit. Health and the pages' own files are not counted."""
    refused_keys_per_minute: int = Field(default=120, ge=0)
    """Requests without a valid API key that an address may make in a minute, to this process; then only
    holders that it has served go on from there. 0 for no limit."""
    # Not even loopback: whoever is trusted says which address it has, so that nothing bounds its guesses.
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies, separated by commas, whose `X-Forwarded-For` has the caller's
    address and whose `X-Forwarded-Proto` the page's scheme; behind any other proxy all callers have the
    proxy's address."""
    # A SQLite ledger pages through so many in 50 ms, and the plan still fits into memory.
    max_items_per_run: int = Field(default=1_000_000, ge=1)
    """Most items that a run may plan."""
    ledger_check_seconds: float = Field(default=1.0, ge=0)
    """Seconds for which a SQLite ledger is looked through for damage at the start; 0 for not at all. What a
    larger ledger has beyond them shows when it is read."""
    least_free_bytes: int = Field(default=64_000_000, ge=0)
    """Free bytes on the disk of a SQLite ledger or of the store below which `/readyz` answers
    `storage-full`."""
    store_budget_bytes: int | None = Field(default=50_000_000_000, ge=0)
    """Most bytes of what the store keeps that can be computed again, such as inversions (about 15 MB an image
    at 512 pixels): the least recently used go first, and nothing that a run names ever goes. Null, or more
    than the disk has, for no budget; only for a store on a local disk."""
    call_seconds: float = Field(default=600.0, gt=0)
    """Seconds after which a call to a service is abandoned."""
    # With three attempts per item this exceeds the ten minutes that a restart of the cluster may take.
    patience_seconds: float = Field(default=210.0, ge=0)
    """Seconds during which a failing call to a service is repeated."""
    lease_seconds: float = Field(default=60.0, ge=1)
    """Seconds for which a worker holds its items; after that the items of a killed worker return to the
    queue."""
    concurrency: int | None = Field(default=None, ge=1, le=256)
    """Number of item groups, such as source images, that one worker processes at once; by default two for
    each replica that the services may have."""
    summary_processes: int = Field(default=1, ge=1, le=64)
    """Most processes that make summaries and reports beside the gateway, started when needed; tenants
    whose summaries wait take turns."""
    columns_dir: Path = STATE_DIR / "columns"
    """Folder of this gateway's column files, from which large runs are summed up; what is missing in it is
    read from the ledger."""
    columns_bytes: int = Field(default=10_000_000_000, ge=0)
    """Most bytes of the column files: those of the runs that were summed up longest ago go first; 0 to keep
    none."""

    otlp_endpoint: str | None = None
    """Address of a collector that traces are sent to by OTLP over HTTP, such as `http://127.0.0.1:4318`; null
    for no traces."""
    private_webhooks: bool = False
    """Whether webhooks may have addresses in private networks, and plain http; by default messages go to
    public addresses by https alone."""
    clusters: dict[Name, str] = {}
    """Ray clusters that jobs may run on, as `name=http://head:8265` separated by commas: the address of each
    one's dashboard. Empty for none."""
    cluster_token_files: dict[str, Path] = {}
    """Files with the clusters' tokens, which only their owner may read, as `name=path` separated by commas; a
    path alone is for all others. Empty for clusters that want none."""
    ray_versions: tuple[str, ...] = RAY_VERSIONS
    """Versions of Ray that a cluster may run, as `2.60` separated by commas; by default the one that the
    gateway was tested with."""
    policy_words_file: Path | None = None
    """File of words and phrases, one a line, that no request and no edited caption may have; none by
    default."""
    c2pa_certificate: Path | None = None
    """File with the certificate chain (PEM) by which exported images are signed as content credentials
    (C2PA), or null for none; needs `counterpose[c2pa]`."""
    c2pa_key_file: Path | None = None
    """File with its private key (PEM, PKCS#8), which only its owner may read, or null."""
    c2pa_algorithm: SigningAlgorithm = "es256"
    """The key's algorithm, by C2PA's name: `es256` is ECDSA on P-256."""
    job_worker_cpus: float = Field(default=1.0, gt=0)
    """CPUs that Ray reserves for one worker of a job."""
    job_driver_cpus: float = Field(default=0.1, gt=0)
    """CPUs that Ray reserves for the program that starts a job's workers; with 0 it would have to run on the
    head."""

    @model_validator(mode="after")
    def _certificate_has_its_key(self) -> GatewaySettings:
        if (self.c2pa_certificate is None) != (self.c2pa_key_file is None):
            raise ValueError(
                "COUNTERPOSE_C2PA_CERTIFICATE and COUNTERPOSE_C2PA_KEY_FILE belong together; set both or none"
            )
        return self

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        # The server takes what is no address for a name that no caller has, without a word.
        return tuple(str(_network(each.strip())) for each in value)

    @field_validator("clusters")
    @classmethod
    def _addresses(cls, value: dict[str, str]) -> dict[str, str]:
        for name, url in value.items():
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
                raise ValueError(f"the address of the cluster {name!r} is not like http://head:8265: {url!r}")
        return value

    @model_validator(mode="after")
    def _safe(self) -> GatewaySettings:
        # Refused at the start, because the first request may already come from a stranger.
        if not self.api_keys and not is_loopback(self.host):
            raise ValueError(f"listening on {self.host!r}, beyond loopback, needs COUNTERPOSE_API_KEYS")
        if self.admin_port is not None and not self.admin_keys and not is_loopback(self.admin_host):
            raise ValueError(f"operators' listener on {self.admin_host!r} needs COUNTERPOSE_ADMIN_KEYS")
        if self.admin_port == self.port:
            raise ValueError(f"COUNTERPOSE_ADMIN_PORT is {self.port}, the port of the API; give another")
        keys = (*self.api_keys, *self.admin_keys)
        if any(len(key.get_secret_value()) < KEY_CHARACTERS_AT_LEAST for key in keys):
            raise ValueError(f"an API key has fewer than {KEY_CHARACTERS_AT_LEAST} characters")
        if set(self.api_keys) & set(self.admin_keys):
            raise ValueError("a key is in COUNTERPOSE_API_KEYS and in COUNTERPOSE_ADMIN_KEYS; give two keys")
        if wrong := [each for each in self.import_from if "://" not in each]:
            raise ValueError(
                f"COUNTERPOSE_IMPORT_FROM has {wrong[0]!r}, which begins no URL; write such as s3://bucket/"
            )
        if self.max_bodies_bytes < self.max_body_bytes:
            raise ValueError(
                f"COUNTERPOSE_MAX_BODIES_BYTES ({self.max_bodies_bytes}) is less than one body may have "
                f"(COUNTERPOSE_MAX_BODY_BYTES, {self.max_body_bytes})"
            )
        return self

    def service_url(self, service: str) -> str:
        """Return the address of one service, without a trailing slash."""
        if SERVICE_PLACEHOLDER in self.services_url:
            return self.services_url.replace(SERVICE_PLACEHOLDER, service).rstrip("/")
        return f"{self.services_url.rstrip('/')}/{service}"

    @property
    def functions_allowed(self) -> bool:
        """Whether runs may name addresses on 127.0.0.1 for the services to call."""
        if self.allow_functions is not None:
            return self.allow_functions
        services = urlsplit(self.service_url("classifiers")).hostname or ""
        return not self.api_keys and is_loopback(self.host) and is_loopback(services)

    def shared_secret(self) -> str:
        """Return the secret that the services require.

        Raises:
            ValueError: there is neither a ``secret`` nor a ``secret_file``, or others can read the file.
        """
        if self.secret is not None:
            return self.secret.get_secret_value()
        return read_secret(self.secret_file)


def _network(written: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(written)
    except ValueError as error:
        raise ValueError(
            f"COUNTERPOSE_TRUSTED_PROXIES has {written!r}, which is neither an address nor a network such as "
            "10.1.0.0/16"
        ) from error


_LISTS = ("admin_keys", "api_keys", "import_from", "ray_versions", "trusted_proxies")
_TABLES = ("clusters", "cluster_token_files")
"""Settings of several values, separated by commas."""


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return ENDPOINT_VARIABLE if field == "otlp_endpoint" else PREFIX + field.upper()


def settings_from(environ: Mapping[str, str], **overrides: object) -> GatewaySettings:
    """Read the variables of ``environ`` that begin with COUNTERPOSE_; ``overrides`` other than None win.

    ``COUNTERPOSE_STATE_DIR`` moves database, store and secret together; each has a variable of its own, too.
    """
    state = Path(environ.get(f"{PREFIX}STATE_DIR", STATE_DIR))
    values: dict[str, object] = {
        "database_url": f"sqlite:///{state / 'ledger.db'}",
        "store_url": str(state / "store"),
        "secret_file": state / "secret",
        "columns_dir": state / "columns",
    }
    for field in GatewaySettings.model_fields:
        # An empty variable counts as unset, as compose files and shells use it.
        if value := environ.get(variable(field)):
            values[field] = _read(field, value)
    values |= {name: value for name, value in overrides.items() if value is not None}
    return GatewaySettings.model_validate(values)


def _read(field: str, value: str) -> object:
    if field in _LISTS:
        return tuple(value.split(","))
    if field in _TABLES:
        # Of an entry without "=", such as the path of a token for all, the name is empty.
        named = (part if "=" in part else f"{OTHERS}={part}" for part in map(str.strip, value.split(",")))
        return dict(part.split("=", 1) for part in named)
    return value


def settings_of_process(**overrides: object) -> GatewaySettings:
    """Read the settings from this process's environment, which no other function of the gateway reads."""
    return settings_from(os.environ, **overrides)
