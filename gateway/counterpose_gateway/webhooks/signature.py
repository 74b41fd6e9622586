"""Signatures of Standard Webhooks (github.com/standard-webhooks/standard-webhooks), symmetric ones."""

from __future__ import annotations

import base64
import hashlib
import hmac

SECRET_PREFIX = "whsec_"
VERSION = "v1"


def signature(secret: str, message: str, timestamp: int, body: str) -> str:
    """Return the header ``webhook-signature`` of a message.

    Args:
        secret: `SECRET_PREFIX` and the key in base64.
        message: the header ``webhook-id``.
        timestamp: the header ``webhook-timestamp``, in seconds since the epoch.
        body: the body as it is sent.
    """
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = hmac.new(key, f"{message}.{timestamp}.{body}".encode(), hashlib.sha256).digest()
    return f"{VERSION},{base64.b64encode(signed).decode()}"
