"""Whether a gateway answers, whether it is ready, and what a log says of a program that ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from shlex import quote

import httpx

from counterpose._stack.record import state_at
from counterpose_core.contract.services import Health
from counterpose_core.errors import InvalidRequest
from counterpose_processes.ports import LOOPBACK, free_port, is_free
from counterpose_processes.program import Program

LOOK_TIMEOUT_S = 2.0
# A readiness check asks five services, each of which may be slow while models load.
READY_TIMEOUT_S = 10.0
LOG_LINES = 12
_NOT_READY = "not ready: "


def health(url: str) -> Health | None:
    """Return the gateway's word on itself; None if none answers."""
    response = _got(f"{url}/healthz", LOOK_TIMEOUT_S)
    try:
        return None if response is None else Health.model_validate_json(response.content)
    except ValueError:
        # Another program listens on the port.
        return None


def waited_for(url: str) -> str | None:
    """Return what the gateway waits for, such as "not ready: editor"; None if it is ready."""
    response = _got(f"{url}/readyz", READY_TIMEOUT_S)
    if response is None:
        return "no answer"
    if response.is_success:
        return None
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"status {response.status_code}"


class Readiness:
    """What a gateway waits for while it starts.

    A service that was ready once is not named again: while others load their models it answers late.

    Args:
        look: what is waited for by one answer of the gateway, as `waited_for`.
    """

    def __init__(self, look: Callable[[], str | None]) -> None:
        self._look = look
        self._services: list[str] | None = None

    def __call__(self) -> str | None:
        """Return it in a few words, such as "not ready: editor"; None if the gateway is ready."""
        found = self._look()
        if found is None or not found.startswith(_NOT_READY):
            return found
        named = found.removeprefix(_NOT_READY).partition(";")[0].split(", ")
        if self._services is not None:
            named = [name for name in self._services if name in named]
        self._services = named or self._services
        return f"{_NOT_READY}{', '.join(named)}" if named else "each service answered; not yet all at once"


def require_free(ports: Mapping[str, int], options: str = "") -> None:
    """Refuse ports on which other programs listen, and name a command that starts beside them.

    Args:
        ports: the ports to listen on, by the option of ``counterpose up`` that names each.
        options: the other options of that command.

    Raises:
        InvalidRequest: a port is taken.
    """
    taken = [option for option, port in ports.items() if not is_free(port)]
    if not taken:
        return
    free = {option: free_port() if option in taken else port for option, port in ports.items()}
    named = "".join(f" {option} {port}" for option, port in free.items())
    port, beside = ports[taken[0]], f"start this one beside it with `counterpose up{options}{named}`"
    folder = state_at(port)
    if folder is None and health(f"http://{LOOPBACK}:{port}") is None:
        raise InvalidRequest(f"port {port} is taken by another program: {beside}")
    of = "FOLDER" if folder is None else quote(str(folder))
    raise InvalidRequest(
        f"port {port}: another Counterpose runs there, from another state folder; stop it with "
        f"`counterpose down --state {of}`, or {beside}"
    )


def last_lines(program: Program) -> str:
    """Return the last lines that a program has written to its log, indented."""
    return "\n".join(f"    {line}" for line in program.last_lines()[-LOG_LINES:])


def _got(url: str, timeout_s: float) -> httpx.Response | None:
    try:
        # The environment's proxies do not reach this machine's loopback. Certificates have no part in plain
        # HTTP, and loading them at every look would take 17 ms of a processor.
        return httpx.get(url, timeout=timeout_s, trust_env=False, verify=False)
    except httpx.RequestError:
        return None
