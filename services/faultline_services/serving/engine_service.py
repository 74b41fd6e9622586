"""What the five Serve classes share: an engine, its thread, its health, its HTTP application."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from fastapi import FastAPI

from faultline_core.contract.base import ServiceHealth
from faultline_services.batching.engine_thread import EngineThread
from faultline_services.batching.merged_calls import CostedResponse, Item, Key, MergedCalls, Value
from faultline_services.http.app import service_app
from faultline_services.serving.engine_protocols import Engine
from faultline_services.settings import ServiceName, ServiceSettings

Served = TypeVar("Served", bound=Engine)


class EngineService(ABC, Generic[Served]):
    """Serves one engine over HTTP, by default the one it loads; a subclass names its verbs."""

    name: ClassVar[ServiceName]

    def __init__(self, settings: ServiceSettings, engine: Served | None = None) -> None:
        self.settings = settings
        self.engine = self.load(settings) if engine is None else engine
        self.thread = EngineThread(hung_after_s=settings.request_timeout_s)

    @staticmethod
    @abstractmethod
    def load(settings: ServiceSettings) -> Served:
        """Load the suite's engine; model libraries are imported here, on the replica only."""

    @abstractmethod
    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return what answers each path under POST: coroutine functions from body to body."""

    def gets(self) -> Mapping[str, Callable[[], Awaitable[Any]]]:
        """Return what answers each path under GET, ``/healthz`` apart."""
        return {}

    def merged(
        self, call: Callable[[Key, list[Item]], CostedResponse[Value]]
    ) -> MergedCalls[Key, Item, Value]:
        """Merge concurrent calls of an engine method."""
        return MergedCalls(call, self.thread, max_wait=self.settings.batch_wait_s)

    def health(self) -> ServiceHealth:
        """Say which weights answer."""
        return ServiceHealth(service=self.name, ready=True, model=self.engine.identity)

    def check_health(self) -> None:
        """Raise when the engine hangs, so that Serve replaces this replica."""
        self.thread.check()

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = service_app(self.name, self.settings, self.health)
        for path, call in self.posts().items():
            app.post(path)(call)
        for path, call in self.gets().items():
            app.get(path)(call)
        return app
