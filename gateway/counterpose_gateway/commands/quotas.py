"""`counterpose-gateway quotas`: what each tenant may use in a month, for who runs the gateway."""

from __future__ import annotations

import argparse
import json
import sys

from counterpose_core.errors import InvalidRequest
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.tenants import Quota, tenant_named


def add_commands(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the gateway's command line."""
    quotas = verbs.add_parser("quotas", help="bound what tenants use in a month")
    actions = quotas.add_subparsers(dest="action", required=True)
    setting = actions.add_parser("set", help="let a tenant use so much in a month of UTC; without both, all")
    setting.add_argument("tenant")
    setting.add_argument("--images", type=int, help="items that end as done or filtered; default: no bound")
    setting.add_argument("--gpu-seconds", type=float, help="seconds of the services; default: no bound")
    actions.add_parser("list", help="list the tenants with a quota, and what they have used").add_argument(
        "--json", action="store_true", help="print JSON"
    )


def manage_quotas(arguments: argparse.Namespace, ledger: Ledger) -> int:
    """Do what a `quotas` command says."""
    if arguments.action == "set":
        _set(arguments, ledger)
    lines = [ledger.of(tenant).access.usage().model_dump(mode="json") for tenant in ledger.access.quotas()]
    if arguments.action == "list" and arguments.json:
        sys.stdout.write(json.dumps(lines, indent=2) + "\n")
        return 0
    for line in lines:
        told = (f"{line[what]:,.0f} of {_bound(line[f'{what}_quota'])}" for what in ("images", "gpu_seconds"))
        images, seconds = told
        sys.stdout.write(f"{line['tenant']}  {line['month']}  {images} images  {seconds} GPU-seconds\n")
    return 0


def _set(arguments: argparse.Namespace, ledger: Ledger) -> None:
    most = Quota(arguments.images, arguments.gpu_seconds)
    for name, value in (("--images", most.images), ("--gpu-seconds", most.gpu_seconds)):
        if value is not None and not 0 <= value < 2**53:
            raise InvalidRequest(f"{name} is {value}; give 0 or more, or leave it out for no bound")
    ledger.access.set_quota(tenant_named(arguments.tenant), most)


def _bound(value: float | None) -> str:
    return "any" if value is None else f"{value:,.0f}"
