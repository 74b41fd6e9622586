"""Settings of the gateway: one frozen object a process, the environment read in one function."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

PREFIX = "FAULTLINE_"
STATE_DIR = Path(".faultline")
# 16 random letters cannot be guessed over a network, shorter ones tend to be words.
KEY_CHARACTERS_AT_LEAST = 16
SERVICE_PLACEHOLDER = "{service}"


class GatewaySettings(BaseModel):
    """What `serve` and `work` are told.

    ``services_url`` is the address below which each service has its name as path, or one with
    ``{service}`` in it. ``concurrency`` is how many sources one worker works on at once;
    ``lease_seconds`` is how long a killed worker's items stay with it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    database_url: str = f"sqlite:///{STATE_DIR / 'ledger.db'}"
    store_url: str = str(STATE_DIR / "store")
    services_url: str = "http://127.0.0.1:8101"
    secret: SecretStr | None = None
    secret_file: Path = STATE_DIR / "secret"
    suite: str = "miniature"
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    api_keys: tuple[SecretStr, ...] = ()
    max_body_bytes: int = Field(default=32_000_000, ge=1024)
    # What a ledger of one file pages through in 50 ms, and its plan still fits into memory.
    max_items_per_run: int = Field(default=1_000_000, ge=1)
    call_seconds: float = Field(default=600.0, gt=0)
    # Times the three attempts of an item it exceeds the ten minutes that a cluster's restart may take.
    patience_seconds: float = Field(default=210.0, ge=0)
    lease_seconds: float = Field(default=60.0, ge=1)
    concurrency: int = Field(default=4, ge=1, le=256)

    @model_validator(mode="after")
    def _safe(self) -> GatewaySettings:
        # Refused at the start and not at the first request: by then somebody else may have made it.
        if not self.api_keys and not is_loopback(self.host):
            raise ValueError(f"listening on {self.host!r}, beyond loopback, needs FAULTLINE_API_KEYS")
        if any(len(key.get_secret_value()) < KEY_CHARACTERS_AT_LEAST for key in self.api_keys):
            raise ValueError(f"an API key has fewer than {KEY_CHARACTERS_AT_LEAST} characters")
        return self

    def service_url(self, service: str) -> str:
        """Return the address of one service, without a slash at its end."""
        if SERVICE_PLACEHOLDER in self.services_url:
            return self.services_url.replace(SERVICE_PLACEHOLDER, service).rstrip("/")
        return f"{self.services_url.rstrip('/')}/{service}"

    def shared_secret(self) -> str:
        """Return the secret that services ask for.

        Raises:
            ValueError: neither ``secret`` nor a readable ``secret_file`` is there.
        """
        if self.secret is not None:
            return self.secret.get_secret_value()
        if not self.secret_file.is_file():
            raise ValueError(f"no secret in {str(self.secret_file)!r}: set FAULTLINE_SECRET_FILE")
        return self.secret_file.read_text(encoding="utf-8").strip()


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def settings_from(environ: Mapping[str, str], **overrides: object) -> GatewaySettings:
    """Read what ``environ`` says under FAULTLINE_ names; ``overrides`` that are not None go first.

    ``FAULTLINE_STATE_DIR`` moves database, store and secret together; each has its own name too.
    """
    state = Path(environ.get(f"{PREFIX}STATE_DIR", STATE_DIR))
    values: dict[str, object] = {
        "database_url": f"sqlite:///{state / 'ledger.db'}",
        "store_url": str(state / "store"),
        "secret_file": state / "secret",
    }
    for field in GatewaySettings.model_fields:
        # An empty variable counts as unset: that is how compose files and shells write "none".
        if value := environ.get(PREFIX + field.upper()):
            values[field] = tuple(value.split(",")) if field == "api_keys" else value
    values |= {name: value for name, value in overrides.items() if value is not None}
    return GatewaySettings.model_validate(values)


def settings_of_process(**overrides: object) -> GatewaySettings:
    """Read this process's environment; nothing else in the gateway does."""
    return settings_from(os.environ, **overrides)
