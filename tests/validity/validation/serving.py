"""The gateway that a validation asks: a stack of its own, or one that runs already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faultline import Client
from stack import Stack, ended_by_signals

MODELS_FOLDER = "FAULTLINE_SERVICES_MODELS_FOLDER"
PORT, SERVICES_PORT = 8180, 8181
"""Beside a stack of `make up`, not on it."""


@dataclass(frozen=True)
class ModelsStack(Stack):
    """A stack whose services find further classifiers in a folder."""

    models: Path = Path()

    def environment(self) -> dict[str, str]:
        """What every process of the stack is told."""
        return super().environment() | {MODELS_FOLDER: str(self.models.absolute())}


class Service:
    """A gateway to ask, started when it is first needed and stopped at the end."""

    def __init__(self, state: Path, models: Path, url: str | None = None) -> None:
        self._stack = ModelsStack(state=state, port=PORT, services_port=SERVICES_PORT, models=models)
        self._url = url
        self._client: Client | None = None

    def client(self) -> Client:
        """A client of a gateway that answers."""
        if self._client is None:
            if self._url is None:
                self._stack.up()
            self._client = Client(self._url or self._stack.url)
        return self._client

    def close(self) -> None:
        """Stop what was started."""
        if self._client is not None:
            self._client.close()
        self._stack.stop_started()


@contextmanager
def serving(state: Path, models: Path, url: str | None = None) -> Iterator[Service]:
    """A service for the time of a validation; with a ``url`` one that runs already."""
    service = Service(state, models, url)
    with ended_by_signals():
        try:
            yield service
        finally:
            service.close()
