"""Which problems each operation may answer; a new error of a route is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.errors import error_classes
from counterpose_core.kinds import KINDS
from counterpose_gateway.methods import METHODS

ALIVE = "/healthz"
HEALTH = frozenset({ALIVE, "/readyz"})
RUN = "/v1/runs/{run_id}"

# The edge reads headers and body before it looks for a route.
OF_EDGE = (
    "headers-too-large internal-error invalid-request malformed-request payload-too-large request-timeout "
    "unsupported-media"
)
OF_IMAGES = "class-map-mismatch image-too-large image-undecodable unsupported-media"
OF_SERVICES = (
    "backend-unavailable bad-backend-output class-map-mismatch deadline-exceeded model-format-refused "
    "numerical-failure prompt-too-long rate-limited resource-exhausted unknown-model"
)
"""What a service refuses is answered as the service said it."""
OF_PLANNING = f"{OF_SERVICES} budget-spent dataset-empty dataset-not-ready quota-exceeded unknown-dataset"
OF_STORE = "artifact-corrupt artifact-missing"


class Operation(NamedTuple):
    """An operation of the document."""

    method: str
    path: str
    described: Mapping[str, Any]

    def takes(self, header: str) -> bool:
        """Return whether the operation reads this header."""
        return any(each["name"] == header for each in self.described.get("parameters", ()))


# Each rule: to which operations these codes belong. A bound of every request goes into `OF_EDGE`.
RULES: tuple[tuple[Callable[[Operation], bool], str], ...] = (
    (lambda operation: True, OF_EDGE),
    (lambda operation: operation.method != "DELETE", "not-acceptable"),
    (lambda operation: operation.path not in HEALTH, "forbidden rate-limited unauthorized"),
    (lambda operation: operation.path != ALIVE, "backend-unavailable ledger-damaged"),
    (lambda operation: operation.method != "GET", "disk-failed foreign-origin storage-full"),
    (lambda operation: "requestBody" in operation.described, "policy-refused"),
    (lambda operation: operation.takes(IDEMPOTENCY_HEADER), "idempotency-conflict idempotency-in-flight"),
    (lambda operation: "{run_id}" in operation.path, "not-found"),
    (lambda operation: operation.path.endswith(("/summary", "/report", "/export")), OF_STORE),
    (lambda operation: operation.path.endswith(("/report", "/export", ".png")), "signed-url-refused"),
)

OWN: Mapping[str, str] = {
    "GET /readyz": "disk-failed storage-full",
    "POST /v1/datasets": "class-map-mismatch dataset-not-ready quota-exceeded",
    "GET /v1/datasets/{name}": "unknown-dataset",
    "PATCH /v1/datasets/{name}": "unknown-dataset",
    "DELETE /v1/datasets/{name}": "dataset-not-ready unknown-dataset",
    "POST /v1/datasets/{name}/sources": f"{OF_IMAGES} dataset-not-ready quota-exceeded unknown-dataset",
    "POST /v1/datasets/{name}/import/cancel": "unknown-dataset",
    "POST /v1/datasets/{name}/import": "class-map-mismatch dataset-not-ready import-refused quota-exceeded",
    **{
        f"POST /v1/{KINDS[each.kind].path}": " ".join([OF_PLANNING, *(error.code for error in each.problems)])
        for each in METHODS.values()
    },
    f"POST {RUN}/cancel": "run-not-cancellable",
    f"POST {RUN}/resume": "budget-spent quota-exceeded run-not-resumable",
    f"DELETE {RUN}": "run-not-deletable",
    f"GET {RUN}/export": "dataset-empty storage-full",
    f"POST {RUN}/register": f"{OF_STORE} dataset-empty quota-exceeded",
    "POST /v1/gates/freeze": f"{OF_STORE} not-found run-not-ended",
    "POST /v1/stress-tests/estimate": f"{OF_PLANNING} images-outside-suite unknown-edit-type",
    "POST /v1/bug-hunts/estimate": OF_PLANNING,
    f"POST {RUN}/findings/{{number}}/prove": f"{OF_PLANNING} {OF_STORE} run-not-ended",
    f"POST {RUN}/descriptions": f"{OF_PLANNING} {OF_STORE} run-not-ended",
    f"GET {RUN}/findings/{{number}}": OF_STORE,
    f"POST {RUN}/generate": f"{OF_SERVICES} {OF_STORE} quota-exceeded",
    f"GET {RUN}/inspections": OF_STORE,
    f"GET {RUN}/shift-thresholds": OF_STORE,
    f"PUT {RUN}/shift-thresholds/{{shift}}": OF_STORE,
    "POST /v1/token-files": "quota-exceeded",
    "POST /v1/jobs": f"{OF_PLANNING} cluster-refused not-found price-missing unknown-edit-type",
    "POST /v1/webhooks": "quota-exceeded",
    "GET /v1/webhooks/{webhook_id}": "not-found",
    "DELETE /v1/webhooks/{webhook_id}": "not-found",
    "GET /v1/jobs/{job_id}": "not-found",
    "POST /v1/jobs/{job_id}/cancel": "not-found run-not-cancellable",
    "GET /v1/artifacts/{ref}.png": OF_STORE,
    "GET /v1/classifiers": OF_SERVICES,
}
"""The errors of single operations, in addition to those of the rules."""


def problems_of(method: str, path: str, described: Mapping[str, Any]) -> dict[str, int]:
    """Return the code of every error that an operation may answer, and its status."""
    operation = Operation(method, path, described)
    by_rule = [codes for applies, codes in RULES if applies(operation)]
    known = error_classes()
    return {
        code: known[code].status for code in " ".join([*by_rule, OWN.get(f"{method} {path}", "")]).split()
    }
