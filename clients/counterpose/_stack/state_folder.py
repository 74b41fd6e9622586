"""Where a Counterpose of this machine keeps its state: ledger, images, secret, logs."""

from __future__ import annotations

import fcntl
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from counterpose_core.errors import InvalidRequest

STATE_VARIABLE = "COUNTERPOSE_STATE_DIR"
LOCK = "lock"
SECRET = "secret"
_OLD_NAME, _NAME = "faultline", "counterpose"
_OLD_FILES = ("ledger.db", "secret")
"""What a state folder of the old name has; another product of that name has other files."""


def default_state(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """Return the user's own folder, or the one that COUNTERPOSE_STATE_DIR names."""
    known = os.environ if environ is None else environ
    if named := known.get(STATE_VARIABLE):
        return Path(named).absolute()
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "counterpose"
    # The XDG rules: a relative path in the variable is invalid and ignored.
    shared = Path(known.get("XDG_DATA_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".local" / "share") / "counterpose"


def state_option(state: Path | None) -> str:
    """Return what a command needs to mean this folder: `` --state FOLDER``, nothing for the default one."""
    return "" if state in (None, default_state()) else f" --state {quote(str(state))}"


def prepare(state: Path) -> None:
    """Make the folder and the secret in it, both for their owner alone.

    Raises:
        InvalidRequest: the folder cannot be made, or it is one of the product's old name.
    """
    _refuse_old_name(state)
    try:
        state.mkdir(mode=0o700, exist_ok=True, parents=True)
    except OSError as error:
        raise InvalidRequest(f"the state folder {str(state)!r} cannot be made: {error.strerror}") from error
    secret = state / SECRET
    if not secret.exists():
        # Unreadable to others before anything is written to it.
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32), encoding="utf-8")


def _refuse_old_name(state: Path) -> None:
    """Raise an error for a folder that the product made under its old name, or that ours would replace."""
    replaced = [] if state.exists() else [state.with_name(state.name.replace(_NAME, _OLD_NAME))]
    for folder in (state, *replaced):
        if _OLD_NAME in folder.name and all((folder / name).exists() for name in _OLD_FILES):
            raise InvalidRequest(
                f"{str(folder)!r} holds runs of this product under its old name, which this version cannot "
                "read: move the folder away or delete it, then start again"
            )


@contextmanager
def locked(state: Path, *, patient: bool = False) -> Iterator[None]:
    """Let no other process start or stop a stack in this folder meanwhile; a patient caller waits its turn.

    Raises:
        InvalidRequest: another process is doing so.
    """
    with (state / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if patient else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            # Empty between taking the lock and signing it, and after the holder has let go.
            pid = lock.read().strip() or "PID"
            raise InvalidRequest(
                f"another command (process {pid}) is starting or stopping Counterpose in {str(state)!r}: "
                f"wait for it, or end it with Ctrl-C or `kill {pid}`; what it has started it stops"
            ) from error
        try:
            lock.write(f"{os.getpid()}")
            lock.flush()
            yield
        finally:
            # Before it is released: the next holder must not stand under this name, which ends with us.
            lock.truncate(0)
