"""Which problems each operation may answer; a new error of a route is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from counterpose_core.contract.base import IDEMPOTENCY_HEADER
from counterpose_core.errors import (
    ArtifactCorrupt,
    ArtifactMissing,
    BackendUnavailable,
    BadBackendOutput,
    ClassMapMismatch,
    ClusterRefused,
    CounterposeError,
    DatasetEmpty,
    DatasetNotReady,
    DeadlineExceeded,
    DiskFailed,
    Forbidden,
    ForeignOrigin,
    HeadersTooLarge,
    IdempotencyConflict,
    IdempotencyInFlight,
    ImagesOutsideSuite,
    ImageTooLarge,
    ImageUndecodable,
    ImportRefused,
    InternalError,
    InvalidRequest,
    LedgerDamaged,
    MalformedRequest,
    ModelFormatRefused,
    NotAcceptable,
    NotFound,
    NumericalFailure,
    PayloadTooLarge,
    PolicyRefused,
    PromptTooLong,
    QuotaExceeded,
    RateLimited,
    RequestTimeout,
    ResourceExhausted,
    RunNotCancellable,
    RunNotDeletable,
    RunNotEnded,
    RunNotResumable,
    SignedUrlRefused,
    StorageFull,
    Unauthorized,
    UnknownDataset,
    UnknownEditType,
    UnknownModel,
    UnsupportedMedia,
)
from counterpose_core.kinds import KINDS
from counterpose_gateway.methods import METHODS

Errors = tuple[type[CounterposeError], ...]

ALIVE = "/healthz"
HEALTH = frozenset({ALIVE, "/readyz"})
RUN = "/v1/runs/{run_id}"

# The edge reads headers and body before it looks for a route.
OF_EDGE: Errors = (
    HeadersTooLarge,
    InternalError,
    InvalidRequest,
    MalformedRequest,
    PayloadTooLarge,
    RequestTimeout,
    UnsupportedMedia,
)
OF_IMAGES: Errors = (ClassMapMismatch, ImageTooLarge, ImageUndecodable, UnsupportedMedia)
OF_SERVICES: Errors = (
    BackendUnavailable,
    BadBackendOutput,
    ClassMapMismatch,
    DeadlineExceeded,
    ModelFormatRefused,
    NumericalFailure,
    PromptTooLong,
    RateLimited,
    ResourceExhausted,
    UnknownModel,
)
"""What a service refuses is answered as the service said it."""
OF_PLANNING: Errors = (*OF_SERVICES, DatasetEmpty, DatasetNotReady, QuotaExceeded, UnknownDataset)
OF_STORE: Errors = (ArtifactCorrupt, ArtifactMissing)


class Operation(NamedTuple):
    """An operation of the document."""

    method: str
    path: str
    described: Mapping[str, Any]

    def takes(self, header: str) -> bool:
        """Return whether the operation reads this header."""
        return any(each["name"] == header for each in self.described.get("parameters", ()))


# Each rule: to which operations these errors belong. A bound of every request goes into `OF_EDGE`.
RULES: tuple[tuple[Callable[[Operation], bool], Errors], ...] = (
    (lambda operation: True, OF_EDGE),
    (lambda operation: operation.method != "DELETE", (NotAcceptable,)),
    (lambda operation: operation.path not in HEALTH, (Forbidden, RateLimited, Unauthorized)),
    (lambda operation: operation.path != ALIVE, (BackendUnavailable, LedgerDamaged)),
    (lambda operation: operation.method != "GET", (DiskFailed, ForeignOrigin, StorageFull)),
    (lambda operation: "requestBody" in operation.described, (PolicyRefused,)),
    (lambda operation: operation.takes(IDEMPOTENCY_HEADER), (IdempotencyConflict, IdempotencyInFlight)),
    (lambda operation: "{run_id}" in operation.path, (NotFound,)),
    (lambda operation: operation.path.endswith(("/summary", "/report", "/export")), OF_STORE),
    (lambda operation: operation.path.endswith(("/report", "/export", ".png")), (SignedUrlRefused,)),
)

OWN: Mapping[str, Errors] = {
    "GET /readyz": (DiskFailed, StorageFull),
    "POST /v1/datasets": (ClassMapMismatch, DatasetNotReady, QuotaExceeded),
    "GET /v1/datasets/{name}": (UnknownDataset,),
    "PATCH /v1/datasets/{name}": (UnknownDataset,),
    "DELETE /v1/datasets/{name}": (DatasetNotReady, UnknownDataset),
    "POST /v1/datasets/{name}/sources": (*OF_IMAGES, DatasetNotReady, QuotaExceeded, UnknownDataset),
    "POST /v1/datasets/{name}/import/cancel": (UnknownDataset,),
    "POST /v1/datasets/{name}/import": (ClassMapMismatch, DatasetNotReady, ImportRefused, QuotaExceeded),
    **{f"POST /v1/{KINDS[each.kind].path}": (*OF_PLANNING, *each.problems) for each in METHODS.values()},
    f"POST {RUN}/cancel": (RunNotCancellable,),
    f"POST {RUN}/resume": (QuotaExceeded, RunNotResumable),
    f"DELETE {RUN}": (RunNotDeletable,),
    f"GET {RUN}/export": (DatasetEmpty, StorageFull),
    f"POST {RUN}/register": (*OF_STORE, DatasetEmpty, QuotaExceeded),
    "POST /v1/gates/freeze": (*OF_STORE, NotFound, RunNotEnded),
    "POST /v1/stress-tests/estimate": (*OF_PLANNING, ImagesOutsideSuite, UnknownEditType),
    "POST /v1/bug-hunts/estimate": OF_PLANNING,
    f"POST {RUN}/findings/{{number}}/prove": (*OF_PLANNING, *OF_STORE, RunNotEnded),
    f"POST {RUN}/descriptions": (*OF_PLANNING, *OF_STORE, RunNotEnded),
    f"GET {RUN}/findings/{{number}}": OF_STORE,
    f"POST {RUN}/generate": (*OF_SERVICES, *OF_STORE, QuotaExceeded),
    f"GET {RUN}/inspections": OF_STORE,
    f"GET {RUN}/shift-thresholds": OF_STORE,
    f"PUT {RUN}/shift-thresholds/{{shift}}": OF_STORE,
    "POST /v1/jobs": (*OF_PLANNING, ClusterRefused, NotFound, UnknownEditType),
    "POST /v1/webhooks": (QuotaExceeded,),
    "GET /v1/webhooks/{webhook_id}": (NotFound,),
    "DELETE /v1/webhooks/{webhook_id}": (NotFound,),
    "GET /v1/jobs/{job_id}": (NotFound,),
    "POST /v1/jobs/{job_id}/cancel": (NotFound, RunNotCancellable),
    "GET /v1/artifacts/{ref}.png": OF_STORE,
    "GET /v1/classifiers": OF_SERVICES,
}
"""The errors of single operations, in addition to those of the rules."""


def problems_of(method: str, path: str, described: Mapping[str, Any]) -> Errors:
    """Return every error that an operation may answer."""
    operation = Operation(method, path, described)
    by_rule = (error for applies, errors in RULES if applies(operation) for error in errors)
    own = OWN.get(f"{method} {path}", ())
    return tuple({error.code: error for error in (*by_rule, *own)}.values())
