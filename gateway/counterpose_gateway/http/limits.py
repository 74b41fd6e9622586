"""Every bound on what a caller can cost, declared: the page of limits is written from it.

A test walks over all routes and layouts of imports, and asks of each for the work that bounds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from counterpose_core.contract.datasets import Layout
from counterpose_core.images.codecs import LARGEST_PHOTOGRAPH, MAX_PIXELS
from counterpose_core.images.file_structure import MAX_CHUNKS, MAX_SCANS
from counterpose_gateway.http.bodies import UNKNOWN_SECONDS
from counterpose_gateway.http.bounds import (
    EXPORTS,
    EXPORTS_OF_ONE,
    MOST_UNREAD,
    MOST_UNREAD_OF_ONE,
    UNKNOWN_BODIES,
    UNKNOWN_BODIES_OF_ONE,
)
from counterpose_gateway.http.in_flight import AT_ONCE, MOST, TURN_SECONDS
from counterpose_gateway.images.pixels import MOST_OF_A_REQUEST, MOST_PIXELS

_BUSY = "429 `rate-limited`, to be retried"
_QUOTA = "429 `quota-exceeded`"
_WAIT = "none: the others wait"


@dataclass(frozen=True)
class Limit:
    """One bound: a setting, or a fixed number; what it bounds; and what is answered beyond it."""

    source: str
    bounds: str
    answer: str
    use: str = ""
    """The label of its series in `/metrics`, where a process holds what it bounds."""


def _mega(number: int) -> str:
    return f"{number / 1_000_000:.0f}"


LIMITS = (
    Limit(
        "MAX_HEADER_BYTES",
        "bytes of a request's line and headers, and of what the chunks of a body say beside their data",
        "431 `headers-too-large`",
    ),
    Limit("MAX_HEADERS", "number of headers", "431 `headers-too-large`"),
    Limit("MAX_BODY_BYTES", "bytes of one body", "413 `payload-too-large`"),
    Limit(
        "MAX_REQUESTS_IN_FLIGHT",
        "requests served at once, each from its whole body on, of a tenant three quarters; health is always "
        "answered. Twice as many bodies may be awaited (`awaited-bodies`), of one key as many",
        _BUSY, "requests",
    ),
    Limit(
        f"fixed: {UNKNOWN_BODIES}, of an address {UNKNOWN_BODIES_OF_ONE}",
        f"bodies that are awaited without a key, {UNKNOWN_SECONDS:g} s each: forms of the login page. No "
        "other path takes a body without a key",
        "429 `rate-limited`, 408 `request-timeout`, 413 `payload-too-large`", "bodies-without-key",
    ),
    Limit(
        f"fixed: {_mega(MOST_UNREAD)} MB, of an address {_mega(MOST_UNREAD_OF_ONE)} MB",
        "bytes of answers above 262 kB that are being sent, but for exports and results, which are made "
        "meanwhile. A client that takes less than 33 kB in 30 s of what waits for it is cut off",
        _BUSY, "unread-bytes",
    ),
    Limit(
        "MAX_LISTENERS", "event streams and waits served at once, of a tenant three quarters",
        _BUSY, "listeners",
    ),
    Limit(
        "REQUESTS_PER_MINUTE", "requests of the holder of a key in a minute; 0 for no limit",
        "429 `rate-limited`",
    ),
    Limit(
        "REFUSED_KEYS_PER_MINUTE",
        "requests of an address without a valid key in a minute; 0 for no limit", "429 `rate-limited`",
    ),
    Limit(
        "MAX_BODIES_BYTES", "bytes of all bodies that are held at once, of a tenant three quarters",
        _BUSY, "body-bytes",
    ),
    Limit(
        f"fixed: {AT_ONCE} of {MOST}",
        f"requests that make something: so many at a time for {TURN_SECONDS:g} s, and so many that have "
        "begun, of a tenant three quarters. Tenants go in turn",
        _WAIT,
    ),
    Limit(
        f"fixed: {_mega(MOST_PIXELS)} million",
        "pixels of images above a megapixel that a process decodes or encodes at once; one image may have "
        "more, by itself",
        _WAIT, "pixels",
    ),
    Limit(
        f"fixed: {_mega(MOST_OF_A_REQUEST)} million",
        "pixels of the images of one request, if they are several. Our SDK halves a request that is refused",
        "413 `payload-too-large`",
    ),
    Limit(
        f"fixed: {EXPORTS}, of a tenant {EXPORTS_OF_ONE}",
        "exports of runs that are written and sent at once: each is a whole copy on the disk",
        _BUSY, "exports",
    ),
    Limit(
        "CONCURRENT_UPLOADS", "requests with large bodies that are answered at once; tenants go in turn",
        _WAIT,
    ),
    Limit(
        "SUMMARY_PROCESSES", "summaries and reports that are made at once, each once for all who ask for it",
        _WAIT,
    ),
    Limit("MAX_DATASETS", "datasets of a [tenant](tenants.md)", _QUOTA),
    Limit("MAX_DATASET_IMAGES", "images of one dataset", _QUOTA),
    Limit("MAX_DATASET_BYTES", "their bytes as stored", _QUOTA),
    Limit("MAX_IMAGES", "images of all datasets of a tenant", _QUOTA),
    Limit(
        "MAX_STORED_BYTES",
        "bytes that a tenant has stored, [whatever they are](quotas.md#what-a-tenant-may-store)", _QUOTA,
    ),
    Limit(
        "DATASET_TTL_SECONDS", "how long a dataset is kept ([keep and delete](retention.md))",
        "422 `invalid-request`",
    ),
    Limit(
        "IMPORT_FROM", "addresses that datasets may be imported from; none by default", "422 `import-refused`"
    ),
    Limit("MAX_IMPORT_SHARDS", "shards of one import", "the import fails with `quota-exceeded`"),
    Limit("MAX_PNG_CHUNKS", "chunks of a PNG file", "422 `image-undecodable`"),
    Limit(
        f"fixed: {MAX_SCANS} and {MAX_CHUNKS:,}", "scans and segments of a JPEG file",
        "422 `image-undecodable`",
    ),
    Limit(
        f"fixed: {_mega(MAX_PIXELS)} million, of a JPEG or PNG {_mega(LARGEST_PHOTOGRAPH)} million",
        "pixels of one image", "422 `image-undecodable`",
    ),
    Limit("MAX_ITEMS_PER_RUN", "items of a run", _QUOTA),
    Limit(
        "COLUMNS_BYTES", "bytes of the files from which large runs are summed up; 0 for none",
        "none: the oldest are removed",
    ),
    Limit(
        "STORE_BUDGET_BYTES",
        "bytes of what the store keeps that can be computed again, such as inversions; never what a run "
        "names",
        "none: the least recently used are removed",
    ),
    Limit("SERVICES_OIP_SECONDS", "seconds of a remote classifier's whole answer", "504 `deadline-exceeded`"),
    Limit("SERVICES_OIP_ANSWER_BYTES", "bytes of that answer", "502 `bad-backend-output`"),
)  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What requests of some routes take beside a place, and what bounds it."""

    takes: str
    routes: tuple[str, ...]
    """Methods and paths; a star stands for anything."""


WORK = (
    Work("nothing that waits: one row of the ledger at most", ("GET /healthz", "GET /readyz")),
    Work("a place among listeners", ("GET */events", "GET */wait")),
    Work("one of the exports", ("GET */export",)),
    Work("a page of rows at a time, while it is sent", ("GET */results",)),
    Work(
        "a turn of a summary process, once for all who ask for it",
        ("GET */summary", "GET */report", "GET */inspections", "GET */shift-thresholds", "GET */findings/*",
         "GET /ui/runs/{run_id}", "GET /ui/runs/{run_id}/live"),
    ),
    Work(
        "room for its pixels",
        ("GET /v1/artifacts/*", "GET /ui/images/*"),
    ),
    Work(
        "at most 1,000 rows, by an index",
        ("GET /v1/runs", "GET /v1/jobs", "GET */items", "GET /ui"),
    ),
    Work(
        "as many rows as datasets, webhooks, classifiers or services there may be",
        ("GET /v1/datasets", "GET /v1/webhooks", "GET /v1/classifiers", "GET /v1/services", "GET /v1/usage",
         "GET /metrics"),
    ),
    Work(
        "one row, by its key",
        ("GET /v1/datasets/{name}", "GET /v1/runs/{run_id:segment}", "GET */items/{item_id}",
         "GET /v1/jobs/{job_id:segment}", "GET /v1/webhooks/{webhook_id:segment}",
         "GET /ui/runs/{run_id}/delete"),
    ),
    Work(
        "a text that is made once",
        ("GET /openapi.json", "GET /ui/static/{name}", "GET /ui/login", "GET /", "GET /ui/{rest:path}"),
    ),
    Work(
        "a form of 10,000 bytes, and a turn",
        ("POST /ui/login", "POST /ui/logout", "POST /ui/runs/*"),
    ),
    Work(
        "a turn, its body's bytes, the quota of what is stored, and for images room for their pixels",
        ("POST /v1/datasets/{name}/sources", "POST /v1/token-files"),
    ),
    Work(
        "a turn, its body's bytes, and the items that a run may have",
        ("POST /v1/stress-tests", "POST /v1/dataset-interfaces", "POST /v1/shift-benchmarks",
         "POST /v1/bug-hunts", "POST /v1/adversarial-datasets", "POST /v1/transfers", "POST /v1/gates",
         "POST /v1/gates/freeze", "POST */estimate", "POST */prove", "POST */register", "POST /v1/jobs"),
    ),
    Work(
        "a turn, and what its calls of services cost and store, which the tenant's [quotas](quotas.md) count",
        ("POST */descriptions", "POST */generate"),
    ),
    Work(
        "a transaction of few rows",
        ("POST /v1/datasets", "POST */import", "POST */cancel", "POST */resume", "POST /v1/webhooks",
         "POST /v1/signed-urls", "PATCH *", "PUT *", "DELETE *"),
    ),
)  # fmt: skip

IMPORTS: Mapping[Layout, str] = {
    "webdataset": "a member at a time, which must not announce more than the archive has; one image in "
    "memory for each of four threads",
    "image-folder": "names lazily, a part of 500 at a time",
    "parquet": "rows one by one; a page that inflates beyond 64 MiB and a hundred times its bytes is refused",
}


def work_of(route: str) -> Work | None:
    """Return what requests of a route take, such as ``GET /v1/runs``; None if nothing is declared."""
    return next((each for each in WORK if any(fnmatchcase(route, one) for one in each.routes)), None)
