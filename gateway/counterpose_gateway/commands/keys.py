"""`counterpose-gateway keys` and `access-log`: for who runs the gateway, on its machine; no route does it.

`counterpose-gateway quotas`: what each tenant may use in a month, for who runs the gateway.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from counterpose_core.errors import InvalidRequest, NotFound
from counterpose_core.text.plain_text import escaped
from counterpose_gateway.ledger import Ledger
from counterpose_gateway.records.access_keys import SCOPES, AccessKey, Scope, new_key, successor
from counterpose_gateway.records.tenants import DEFAULT_TENANT, Quota, tenant_named

LONGEST_NAME = 120
DAYS, MOST_DAYS, OVERLAP_HOURS, ENTRIES = 90.0, 3650.0, 24.0, 50


def add_commands(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the gateway's command line."""
    keys = verbs.add_parser("keys", help="make, list, renew and revoke API keys")
    actions = keys.add_subparsers(dest="action", required=True)
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument("name", help="whose it is, such as ci or ann@example.org")
    create.add_argument(
        "--scope", action="append", choices=SCOPES, help="what it may do; default: everything"
    )
    create.add_argument(
        "--tenant", default=DEFAULT_TENANT, help="whose objects it opens; default: %(default)s"
    )
    _add_days(create)
    actions.add_parser("list", help="list the keys, also those that have ended").add_argument(
        "--json", action="store_true", help="print JSON"
    )
    rotate = actions.add_parser("rotate", help="print a new key with the name, scopes and tenant of another")
    rotate.add_argument("id")
    rotate.add_argument(
        "--overlap-hours", type=float, default=OVERLAP_HOURS, help="hours for which the old key goes on"
    )
    _add_days(rotate)
    actions.add_parser("revoke", help="end a key within seconds").add_argument("id")
    log = verbs.add_parser("access-log", help="print what the holders of keys changed, newest first")
    log.add_argument("--limit", type=int, default=ENTRIES, help="most entries")
    log.add_argument("--json", action="store_true", help="print JSON")
    _add_quotas(verbs)


def _add_days(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=float, default=DAYS, help="days until it ends; 0 for no end")


def manage_keys(arguments: argparse.Namespace, ledger: Ledger, now: dt.datetime) -> int:
    """Do what a `keys` command says."""
    return _ACTIONS[arguments.action](arguments, ledger, now)


def print_log(arguments: argparse.Namespace, ledger: Ledger) -> int:
    """Print the newest entries of the log."""
    entries = ledger.access.log(max(arguments.limit, 1))
    lines = [
        {"at": each.at.isoformat(), "holder": each.holder, "tenant": each.tenant,
         "method": each.method, "path": each.path, "status": each.status}
        for each in entries
    ]  # fmt: skip
    _print(lines, as_json=arguments.json)
    return 0


def _create(arguments: argparse.Namespace, ledger: Ledger, now: dt.datetime) -> int:
    if not arguments.name.strip() or len(arguments.name) > LONGEST_NAME:
        raise InvalidRequest(f"a key's name has 1 to {LONGEST_NAME} letters, not {len(arguments.name)}")
    scopes: tuple[Scope, ...] = tuple(dict.fromkeys(arguments.scope or SCOPES))
    lasts = _lasts(arguments.days)
    ends = None if lasts is None else now + lasts
    key, whole = new_key(arguments.name.strip(), scopes, now, ends, tenant_named(arguments.tenant))
    ledger.access.add_key(key)
    return _show_once(key, whole)


def _list(arguments: argparse.Namespace, ledger: Ledger, now: dt.datetime) -> int:
    lines = [
        {"id": key.id, "name": key.name, "tenant": key.tenant, "scopes": "+".join(key.scopes),
         "created": key.created_at.isoformat(timespec="minutes"),
         "ends": "never" if key.expires_at is None else key.expires_at.isoformat(timespec="minutes"),
         "state": "open" if key.refusal(now) is None else "revoked" if key.revoked_at else "ended"}
        for key in ledger.access.all_keys()
    ]  # fmt: skip
    _print(lines, as_json=arguments.json)
    return 0


def _rotate(arguments: argparse.Namespace, ledger: Ledger, now: dt.datetime) -> int:
    key = _known(ledger, arguments.id)
    if (refusal := key.refusal(now)) is not None:
        raise InvalidRequest(f"{refusal}; make a new one with `counterpose-gateway keys create`")
    if arguments.overlap_hours < 0:
        raise InvalidRequest(f"--overlap-hours is {arguments.overlap_hours}; it cannot be negative")
    overlap = dt.timedelta(hours=arguments.overlap_hours)
    ending, new, whole = successor(key, now, overlap, _lasts(arguments.days))
    ledger.access.end_key(ending, new)
    return _show_once(new, whole)


def _revoke(arguments: argparse.Namespace, ledger: Ledger, now: dt.datetime) -> int:
    key = _known(ledger, arguments.id)
    if key.revoked_at is None:
        ledger.access.end_key(replace(key, revoked_at=now))
    sys.stdout.write(f"{key.id}: {key.name!r} opens nothing any more; gateways notice within seconds\n")
    return 0


def _known(ledger: Ledger, key_id: str) -> AccessKey:
    key = ledger.access.key(key_id)
    if key is None:
        raise NotFound(f"there is no API key {key_id!r}; `counterpose-gateway keys list` has them all")
    return key


def _lasts(days: float) -> dt.timedelta | None:
    if not 0 <= days <= MOST_DAYS:
        raise InvalidRequest(f"--days is {days}; a key lasts 0 (no end) to {MOST_DAYS:.0f} days")
    return None if days == 0 else dt.timedelta(days=days)


def _show_once(key: AccessKey, whole: str) -> int:
    sys.stdout.write(f"{whole}\n")
    sys.stderr.write(f"{key.id}: keep the key above now, it is not shown again\n")
    return 0


def _print(lines: Sequence[Mapping[str, object]], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(lines, indent=2) + "\n")
        return
    for line in lines:
        sys.stdout.write("  ".join(escaped(str(value)) for value in line.values()) + "\n")


_ACTIONS: dict[str, Callable[[argparse.Namespace, Ledger, dt.datetime], int]] = {
    "create": _create,
    "list": _list,
    "rotate": _rotate,
    "revoke": _revoke,
}


def _add_quotas(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
        _print(lines, as_json=True)
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
