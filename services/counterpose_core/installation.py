"""How this installation came by, and so how what is missing is added to it; the programs' entry points.

The standard library alone, since it answers where an extra is missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "counterpose"
_USAGE = 2


def _origin() -> tuple[str, bool] | None:
    """Return the address that an installer took this distribution from, and whether it is an editable one.

    An installer records an address (PEP 610) unless it took the distribution from an index or from a folder
    of wheels that it searched by name.
    """
    try:
        recorded = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    if recorded is None:
        return None
    address = json.loads(recorded)
    return str(address["url"]), bool(address.get("dir_info", {}).get("editable"))


def adding(extra: str) -> str:
    """Return what adds an extra to this installation, such as ``run pip install --editable '/clone[cli]'``.

    It names the clone or the wheel that this installation came from, never a name on an index: until the
    first release, that name may be a stranger's.
    """
    origin = _origin()
    if origin is None:
        return f"install Counterpose again, from its wheel or its clone, with the extra {extra!r}"
    url, editable = origin
    address = urlsplit(url)
    if address.scheme == "file" and not address.path.endswith((".whl", ".tar.gz", ".zip")):
        return f"run pip install {'--editable ' if editable else ''}'{unquote(address.path)}[{extra}]'"
    return f"run pip install '{DISTRIBUTION}[{extra}] @ {url}'"


def command() -> int | None:
    """Run ``counterpose``."""
    return _run("counterpose._cli.main", "cli", ("typer", "rich"))


def gateway() -> int | None:
    """Run ``counterpose-gateway``."""
    return _run("counterpose_gateway.main", "gateway", ("fastapi", "sqlalchemy", "uvicorn", "scipy"))


def services() -> int | None:
    """Run ``counterpose-services``."""
    return _run("counterpose_services.serving.launcher", "services", ("ray", "torch", "diffusers"))


def _run(module: str, extra: str, packages: Sequence[str]) -> int | None:
    """Run a program's ``main`` and return its exit code; one sentence where its extra is not installed."""
    if missing := [name for name in packages if find_spec(name) is None]:
        sys.stderr.write(f"{_missing(missing)}: {adding(extra)}\n")
        raise SystemExit(_USAGE)
    code: int | None = import_module(module).main()
    return code


def _missing(packages: Sequence[str]) -> str:
    verb = "is" if len(packages) == 1 else "are"
    return f"this needs {', '.join(packages)}, which {verb} not installed"
