"""What the five Serve classes share: the engine, its thread, health, HTTP application and Serve options."""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from fastapi import FastAPI
from ray import serve
from ray.serve import Application

from counterpose_core.blobs import BlobStore
from counterpose_core.contract.base import ServiceHealth
from counterpose_core.errors import DiskFailed
from counterpose_core.suite import load_suite
from counterpose_http import RETRY_AFTER_SECONDS
from counterpose_services.batching.engine_thread import EngineThread
from counterpose_services.batching.merged_calls import Item, Key, MergedCalls, Response
from counterpose_services.http import service_app
from counterpose_services.models.device import choose_float32_precision, require_device
from counterpose_services.serving.autoscaling import BATCHES, BUSY, LASTS, LOAD
from counterpose_services.serving.engine_protocols import Engine
from counterpose_services.serving.forecast import Forecast
from counterpose_services.settings import ServiceName, ServiceSettings

Served = TypeVar("Served", bound=Engine)
# Half of Serve's default, because a hung replica blocks the items of a run.
HEALTH_PERIOD_S = 5.0
# A call ends at `request_timeout_s` at the latest, and its answer takes a moment.
DRAIN_MARGIN_S = 5.0
NODE_GROUP = "ray.io/node-group"
"""The label that each Ray node of a worker group of Kubernetes has, with the group's name."""
POLICY = "counterpose_services.serving.autoscaling:replicas_for_load"
ITEMS = ("items", "images", "texts")
"""The fields of a call that hold one entry for each piece of work."""
STARTS = 3
"""Weights that cannot be loaded three times will not load at a later try."""
PROCESS_S = 10.0
"""Seconds in which Ray starts a process that imports the services, measured on two processors."""
STARTS_BEFORE_STOP = 2
"""A replica is kept idle for at least as long as two starts take, or a short pause would cost one."""


class EngineService(ABC, Generic[Served]):
    """Serves one engine over HTTP, by default the one it loads; a subclass defines the paths."""

    name: ClassVar[ServiceName]
    calls: ClassVar[int] = 16
    """Calls at once that keep one replica busy; the gateway makes no more than this for each."""

    def __init__(self, settings: ServiceSettings, engine: Served | None = None) -> None:
        self.settings = settings
        self.forecast = Forecast()
        began = time.monotonic()
        self.engine = self._loaded() if engine is None else engine
        self.thread = EngineThread(
            hung_after_s=settings.request_timeout_s, calls=self.calls_at_once(settings)
        )
        # Ray's part of a start, a process and its imports, is in neither number.
        self._start_s = PROCESS_S + (settings.of(self.name).start_s or time.monotonic() - began)
        self._suite, self._held = load_suite(settings.suite, settings), 0.0

    def _loaded(self) -> Served:
        # Imports safetensors, which a node that only holds the configuration may lack.
        from counterpose_services.models.preflight import require_licences
        from counterpose_services.models.weight_loading import starting

        require_licences(self.settings, [self.name])
        require_device(self.settings, self.name)
        choose_float32_precision(self.settings, self.name)
        with starting(self.settings, self.name):
            return self.load(self.settings)

    @staticmethod
    @abstractmethod
    def load(settings: ServiceSettings) -> Served:
        """Load the suite's engine; only here, on the replica, are model libraries imported."""

    @classmethod
    def calls_at_once(cls, settings: ServiceSettings) -> int:
        """Return how many calls the engine takes at once: one, unless it only waits for a server."""
        return 1

    @abstractmethod
    def posts(self) -> Mapping[str, Callable[..., Awaitable[Any]]]:
        """Return the coroutine function that answers each path under POST."""

    def gets(self) -> Mapping[str, Callable[[], Awaitable[Any]]]:
        """Return the coroutine function that answers each path under GET, except ``/healthz``."""
        return {}

    @functools.cached_property
    def store(self) -> BlobStore:
        """The store of the settings; a failed write to it makes this replica unhealthy."""
        return BlobStore(self.settings.store_url)

    def work(self, body: Any) -> float:
        """Return the work of a call in the unit of ``full_batch``; here its number of items."""
        return float(next((len(items) for name in ITEMS if (items := getattr(body, name, None))), 1))

    @property
    def full_batch(self) -> float:
        """The work of a full batch; here its number of items."""
        return float(getattr(self._suite, self.name).batch)

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the load of this replica, and what it knows of the work to come.

        The load is 1 if its calls fill the running batch and the next one.
        """
        stats = {LOAD: self._held / (BATCHES * self.full_batch), BUSY: self.forecast.busy()}
        if (remaining := self.forecast.remaining()) is not None:
            stats[LASTS] = max(remaining, 0.0) / self._start_s
        return stats

    def merged(
        self,
        call: Callable[[Key, list[Item]], Response],
        prepared: Callable[[Key], bool] = lambda _: True,
    ) -> MergedCalls[Key, Item, Response]:
        """Merge concurrent calls of an engine method; what is ``prepared`` goes first."""
        return MergedCalls(call, self.thread, max_wait=self.settings.batch_wait_s, prepared=prepared)

    def health(self) -> ServiceHealth:
        """Return the health with the weights that answer."""
        most = self.settings.of(self.name).max_replicas
        return ServiceHealth(
            service=self.name, ready=True, model=self.engine.identity, replicas=most, calls=most * self.calls
        )

    def check_health(self) -> None:
        """Raise an error if the engine hangs or the disk failed, so that Serve replaces this replica."""
        self.thread.check()
        if (found := self.store.failure) is not None:
            raise DiskFailed(found)

    def __serve_build_asgi_app__(self) -> FastAPI:
        app = service_app(self.name, self.settings, self.health, self.forecast.tell)
        for path, call in self.posts().items():
            app.post(path)(self._counted(call))
        for path, call in self.gets().items():
            app.get(path)(call)
        return app

    def _counted(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Add a call's work to what the replica holds while it runs."""

        # FastAPI reads the signature of the function that is wrapped.
        @functools.wraps(call)
        async def counted(body: Any) -> Any:
            work = self.work(body)
            self._held += work
            self.forecast.begin()
            try:
                return await call(body)
            finally:
                self.forecast.end()
                self._held -= work

        return counted


def deployment_options(name: ServiceName, settings: ServiceSettings) -> dict[str, Any]:
    """Return the Serve options of the service ``name``."""
    own = settings.of(name)
    return {
        "name": name,
        "max_ongoing_requests": own.max_queue,
        "max_queued_requests": own.max_queue,
        "backpressure_config": {"status_code": 429, "retry_after_s": RETRY_AFTER_SECONDS},
        "health_check_period_s": HEALTH_PERIOD_S,
        "health_check_timeout_s": settings.health_timeout_s,
        "graceful_shutdown_timeout_s": settings.request_timeout_s + DRAIN_MARGIN_S,
        "max_constructor_retry_count": STARTS,
        "autoscaling_config": {
            "min_replicas": own.min_replicas,
            # Even a service scaled to zero starts once, so that weights that do not load show early.
            "initial_replicas": max(own.min_replicas, 1),
            "max_replicas": own.max_replicas,
            "policy": {"policy_function": POLICY},
            "upscale_delay_s": settings.upscale_delay_s,
            "downscale_delay_s": max(settings.downscale_delay_s, STARTS_BEFORE_STOP * (own.start_s or 0.0)),
        },
        "ray_actor_options": {
            "num_cpus": settings.num_cpus,
            "num_gpus": own.num_gpus,
            # In the Serve config it would also bind the task that builds the application.
            **({"label_selector": {NODE_GROUP: own.node_group}} if own.node_group else {}),
            # Ray would set it from num_cpus, which is a fraction; torch reads it once, on import.
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(settings.threads)}},
        },
    }


def application(name: ServiceName, service: type, settings: ServiceSettings) -> Application:
    """Wrap ``service``, which builds its own ASGI application, and bind it to ``settings``."""
    ingress = serve.ingress()(service)
    return serve.deployment(**deployment_options(name, settings))(ingress).bind(settings)
