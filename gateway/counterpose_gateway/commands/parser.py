"""The verbs of ``counterpose-gateway`` and what each may be given."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from counterpose_gateway.commands.keys import add_commands
from counterpose_gateway.records.tenants import DEFAULT_TENANT

ACCEPT: dict[str, Any] = {
    "action": "store_true", "default": None,
    "help": "let the store belong to this ledger from now on, though another or a newer one wrote to it",
}  # fmt: skip


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of all verbs."""
    top = argparse.ArgumentParser(prog="counterpose-gateway", description=description)
    verbs = top.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser("serve", help="answer the HTTP API")
    serve.add_argument("--host")
    serve.add_argument("--port", type=int)
    serve.add_argument("--admin-port", type=int, help="port for operators alone, on loopback by default")
    serve.add_argument("--accept-ledger", **ACCEPT)
    work = verbs.add_parser("work", help="lease items and process them until stopped")
    work.add_argument(
        "--concurrency", type=int, help="item groups, such as source images, to process at once"
    )
    work.add_argument("--accept-ledger", **ACCEPT)
    work.add_argument("--job", help="work on the run of this job alone, and end with it")
    work.add_argument("--attempt", type=int, default=1, help="the attempt of the job that this belongs to")
    work.add_argument(
        "--follow-only",
        action="store_true",
        help="with --job: report that the attempt lives and end with the job, but work on nothing",
    )
    register = verbs.add_parser("register-dataset", help="make a dataset from a folder on this machine")
    register.add_argument("name")
    register.add_argument("folder", type=Path)
    register.add_argument(
        "--captions",
        action="store_true",
        help="take the captions from metadata.jsonl instead of the captioner",
    )
    register.add_argument("--tenant", default=DEFAULT_TENANT, help="whose it is; default: %(default)s")
    add_commands(verbs)
    back = verbs.add_parser(
        "roll-back", help="bring the ledger to an earlier revision, before an earlier version is installed"
    )
    back.add_argument("revision", help="the newest one that the earlier version knows, such as 0101")
    openapi = verbs.add_parser("openapi", help="write the OpenAPI document")
    openapi.add_argument("--out", type=Path, help="file to write; default: standard output")
    return top
