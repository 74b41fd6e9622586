"""MLflow's webhook deliveries: who signed them, and which model version they tell of."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterpose_core.errors import InvalidRequest, Unauthorized

ID_HEADER, TIME_HEADER, SIGNATURE_HEADER = (
    f"x-mlflow-{name}" for name in ("delivery-id", "timestamp", "signature")
)
OLDEST_S = 300
"""A delivery that was signed longer ago may be a recorded one; MLflow signs each try anew."""
ENTITY, ACTION = "model_version", "created"
_VERSION = "v1"


@dataclass(frozen=True)
class ModelVersion:
    """One version of a registered model."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def check_signature(headers: Mapping[str, str], body: bytes, secret: bytes, now: float) -> None:
    """Reject a delivery that nobody with the secret signed in the last minutes.

    Args:
        headers: of the request, by lower-case names.
        body: as it came.
        secret: the webhook's, as MLflow was given it.
        now: the time, in seconds since 1970.

    Raises:
        Unauthorized: a header is missing, the signature is wrong, or it is too old or from the future.
    """
    delivery, told = headers.get(ID_HEADER, ""), headers.get(TIME_HEADER, "")
    version, _, given = headers.get(SIGNATURE_HEADER, "").partition(",")
    signed = hmac.new(secret, f"{delivery}.{told}.".encode() + body, hashlib.sha256).digest()
    try:
        same = hmac.compare_digest(base64.b64decode(given, validate=True), signed)
    except (binascii.Error, ValueError):
        same = False
    if version != _VERSION or not delivery or not same:
        raise Unauthorized("the delivery is not signed with this webhook's secret")
    if not told.isdecimal() or abs(now - int(told)) > OLDEST_S:
        raise Unauthorized(f"the delivery was signed at {told!r}, not within {OLDEST_S} s of now")


def created_version(body: bytes) -> ModelVersion | None:
    """Return the model version that a delivery says was created, or None for other events.

    Raises:
        InvalidRequest: the body is no delivery of MLflow.
    """
    try:
        told: Any = json.loads(body)
        if (told["entity"], told["action"]) != (ENTITY, ACTION):
            return None
        name, version = told["data"]["name"], told["data"]["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidRequest("the body is no delivery of MLflow's webhooks") from error
    if not isinstance(name, str) or not name or not str(version).isdecimal():
        raise InvalidRequest(f"the delivery names no model version: {name!r}, {version!r}")
    return ModelVersion(name, str(version))
