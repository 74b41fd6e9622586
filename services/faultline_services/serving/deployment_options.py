"""From settings to Serve options: replicas, queue, health, one application a service."""

from __future__ import annotations

import math
from typing import Any

from ray import serve
from ray.serve import Application

from faultline_http import RETRY_AFTER_SECONDS
from faultline_services.settings import ServiceSettings

# Half of Serve's default: a hung replica holds the items of somebody's run.
HEALTH_PERIOD_S = 5.0
# No call carries more than about 30 s of work, so a replica that goes can finish what it has.
DRAIN_S = 30.0
STARTS = 3
"""Weights that cannot be loaded will not be there at the twentieth try either."""
TARGET_SHARE_OF_QUEUE = 0.125
"""A replica this full asks for another: an eighth of the queue keeps waiting short without flapping."""


def deployment_options(name: str, settings: ServiceSettings) -> dict[str, Any]:
    """Return the Serve options of the service ``name``."""
    return {
        "name": name,
        "max_ongoing_requests": settings.max_queue,
        "max_queued_requests": settings.max_queue,
        "backpressure_config": {"status_code": 429, "retry_after_s": RETRY_AFTER_SECONDS},
        "health_check_period_s": HEALTH_PERIOD_S,
        "health_check_timeout_s": settings.health_timeout_s,
        "graceful_shutdown_timeout_s": DRAIN_S,
        "max_constructor_retry_count": STARTS,
        "autoscaling_config": {
            "min_replicas": settings.min_replicas,
            # Even scaled to zero a service starts once: weights that do not load show at once.
            "initial_replicas": max(settings.min_replicas, 1),
            "max_replicas": settings.max_replicas,
            "target_ongoing_requests": max(1, math.floor(settings.max_queue * TARGET_SHARE_OF_QUEUE)),
        },
        "ray_actor_options": {
            "num_cpus": settings.num_cpus,
            "num_gpus": settings.num_gpus,
            # Ray would set it from num_cpus, a fraction here; torch reads it once, on import.
            "runtime_env": {"env_vars": {"OMP_NUM_THREADS": str(settings.threads)}},
        },
    }


def application(name: str, service: type, settings: ServiceSettings) -> Application:
    """Wrap ``service``, which builds its own ASGI application, and bind it to ``settings``."""
    ingress = serve.ingress()(service)
    return serve.deployment(**deployment_options(name, settings))(ingress).bind(settings)
