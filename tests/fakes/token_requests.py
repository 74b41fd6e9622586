"""An upload of published tokens, as the SDK sends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from fakes.sdk import ok

FOLDER = Path(__file__).parent / "tokens"
SENT = {"files": [{"class_name": "boat", "content_base64": "MA=="}]}


def upload_tokens(client: Any) -> Any:
    """Upload a folder with one file."""
    return client.token_files.upload(FOLDER)


def tokens_answer() -> httpx.Response:
    """The gateway's answer."""
    return ok(json.dumps({"tokens": {"boat": "a" * 64}}))
