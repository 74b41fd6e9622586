"""The error tree: every failure that Counterpose raises on purpose, with its stable code.

CounterposeError
├─ RequestError                  the caller can correct it
│  ├─ InvalidRequest             invalid-request        422  a field is missing, unknown or out of range
│  ├─ ImageUndecodable           image-undecodable      422  bytes that are not a readable image
│  ├─ ImageTooLarge              image-too-large        413  more pixels than the cap allows
│  ├─ UnsupportedMedia           unsupported-media      415  not PNG, JPEG or WebP, or animated
│  ├─ DatasetEmpty               dataset-empty          422  no usable image in the dataset
│  ├─ DatasetNotReady            dataset-not-ready      409  its import has not ended
│  ├─ ImportRefused              import-refused         422  an address that may not be read
│  ├─ ShardUnreadable            shard-unreadable       422  missing, changed, or not of its format
│  ├─ UnknownDataset             unknown-dataset        404
│  ├─ UnknownModel               unknown-model          404
│  ├─ UnknownEditType            unknown-edit-type      422
│  ├─ ModelFormatRefused         model-format-refused   422  neither safetensors nor plain ONNX
│  ├─ ClassMapMismatch           class-map-mismatch     422  a label the classifier's class map lacks
│  ├─ PromptTooLong              prompt-too-long        422  does not fit the editor's text encoder
│  ├─ PolicyRefused              policy-refused         422
│  ├─ NoLabel                    a model that chats named none of the labels: never a wrong answer
│  │  ├─ AnswerRefused           answer-refused         422
│  │  ├─ AnswerOffList           answer-off-list        422
│  │  └─ AnswerUnreadable        answer-unreadable      422
│  ├─ ImagesOutsideSuite         images-outside-suite   422  the suite's models know no such images
│  ├─ NotFound                   not-found              404
│  ├─ MalformedRequest           malformed-request      400  not HTTP, or no valid Host header
│  ├─ MethodNotAllowed           method-not-allowed     405
│  ├─ NotAcceptable              not-acceptable         406  the Accept header admits no media type here
│  ├─ HeadersTooLarge            headers-too-large      431  too many bytes or fields
│  ├─ Unauthorized               unauthorized           401
│  ├─ PayloadTooLarge            payload-too-large      413
│  ├─ RequestTimeout             request-timeout        408  headers or body arrived too slowly
│  ├─ RateLimited                rate-limited           429  retry later
│  ├─ QuotaExceeded              quota-exceeded         429
│  ├─ PriceMissing               price-missing          422  a budget in dollars and a model without a price
│  ├─ BudgetSpent                budget-spent           409  the run may ask servers of others for no more
│  ├─ IdempotencyConflict        idempotency-conflict   422  same key, other body
│  ├─ IdempotencyInFlight        idempotency-in-flight  409  same key, first call still running
│  ├─ RunNotCancellable          run-not-cancellable    409
│  ├─ RunNotEnded                run-not-ended          409  wait for it, or cancel it
│  ├─ RunNotResumable            run-not-resumable      409
│  ├─ RunNotDeletable            run-not-deletable      409  it has not ended, or its evidence is needed
│  ├─ Forbidden                  forbidden              403  the key does not allow it
│  ├─ SignedUrlRefused           signed-url-refused     403  the link has ended, or was altered
│  └─ ForeignOrigin              foreign-origin         403  a change that another site's page asks for
├─ BackendError                  a service failed
│  ├─ BackendUnavailable         backend-unavailable    503  retry later
│  ├─ FunctionGone               function-gone          503  the caller's program serves it no more
│  ├─ BadBackendOutput           bad-backend-output     502  wrong shape, NaN, missing item
│  ├─ ClusterRefused             cluster-refused        502  a Ray cluster refuses token or version
│  ├─ DeadlineExceeded           deadline-exceeded      504
│  └─ ResourceExhausted          resource-exhausted     507  out of memory on this item
├─ StorageError
│  ├─ ArtifactCorrupt            artifact-corrupt       500  stored bytes no longer match their digest
│  ├─ ArtifactMissing            artifact-missing       404
│  ├─ LedgerDamaged              ledger-damaged         500  restore it from a backup
│  ├─ LedgerMismatch             ledger-mismatch        500  ledger and store do not belong together
│  ├─ DiskFailed                 disk-failed            500  the process must start anew
│  └─ StorageFull                storage-full           507
├─ AttentionNotHooked            attention-not-hooked   500  a control that attached to no layer
├─ NumericalFailure              numerical-failure      500  NaN or infinity in a sample
├─ Cancelled                     cancelled              409
├─ LeaseLost                     lease-lost             409  another worker owns the item now
└─ InternalError                 internal-error         500
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from counterpose_core.failure import CounterposeError as CounterposeError
from counterpose_core.failure import RequestError as RequestError
from counterpose_core.protocol_errors import Forbidden as Forbidden
from counterpose_core.protocol_errors import ForeignOrigin as ForeignOrigin
from counterpose_core.protocol_errors import HeadersTooLarge as HeadersTooLarge
from counterpose_core.protocol_errors import IdempotencyConflict as IdempotencyConflict
from counterpose_core.protocol_errors import IdempotencyInFlight as IdempotencyInFlight
from counterpose_core.protocol_errors import MalformedRequest as MalformedRequest
from counterpose_core.protocol_errors import MethodNotAllowed as MethodNotAllowed
from counterpose_core.protocol_errors import NotAcceptable as NotAcceptable
from counterpose_core.protocol_errors import PayloadTooLarge as PayloadTooLarge
from counterpose_core.protocol_errors import RateLimited as RateLimited
from counterpose_core.protocol_errors import RequestTimeout as RequestTimeout
from counterpose_core.protocol_errors import SignedUrlRefused as SignedUrlRefused
from counterpose_core.protocol_errors import Unauthorized as Unauthorized


class InvalidRequest(RequestError):
    """A field is missing, unknown or out of range."""


class ImageUndecodable(RequestError):
    """The bytes are not a readable image."""

    code, title = "image-undecodable", "The image cannot be decoded"


class ImageTooLarge(RequestError):
    """The image has more pixels than the limit allows."""

    code, status, title = "image-too-large", 413, "The image has too many pixels"


class UnsupportedMedia(RequestError):
    """Only still PNG, JPEG and WebP images are read."""

    code, status, title = "unsupported-media", 415, "The media type is not supported"


class DatasetEmpty(RequestError):
    """The dataset has no usable image."""

    code, title = "dataset-empty", "The dataset has no usable image"


class ImportRefused(RequestError):
    """The operator does not allow imports from this address."""

    code, title = "import-refused", "Imports from this address are not allowed"


class ShardUnreadable(RequestError):
    """A shard is missing, changed while it was read, or is not of its format."""

    code, title = "shard-unreadable", "A shard of the dataset cannot be read"
    retryable = True


class DatasetNotReady(RequestError):
    """The import of the dataset has not ended."""

    code, status, title = "dataset-not-ready", 409, "The dataset is still being imported"


class UnknownDataset(RequestError):
    """No dataset has this name."""

    code, status, title = "unknown-dataset", 404, "No such dataset"


class UnknownModel(RequestError):
    """No model has this name."""

    code, status, title = "unknown-model", 404, "No such model"


class UnknownEditType(RequestError):
    """The edit type is not in the closed list."""

    code, title = "unknown-edit-type", "No such edit type"


class ModelFormatRefused(RequestError):
    """Weights are read from safetensors only; a classifier under test may be plain ONNX."""

    code, title = "model-format-refused", "The model file is refused"


class ClassMapMismatch(RequestError):
    """A label is missing from the classifier's class map."""

    code, title = "class-map-mismatch", "Labels and class map differ"


class PromptTooLong(RequestError):
    """The text does not fit the editor's text encoder; it is refused, never cut."""

    code, title = "prompt-too-long", "The text is too long for the text encoder"


class PolicyRefused(RequestError):
    """The content policy refuses the input."""

    code, title = "policy-refused", "Refused by policy"


class NoLabel(RequestError):
    """A model that answers in words named none of the labels: an outcome of its own, never a wrong answer."""


class AnswerRefused(NoLabel):
    """The model refuses to answer, or its server's policy does."""

    code, title = "answer-refused", "The model refuses to answer"


class AnswerOffList(NoLabel):
    """The model answers with something else than one of the labels."""

    code, title = "answer-off-list", "The answer is none of the labels"


class AnswerUnreadable(NoLabel):
    """The model's answer is cut, too long, or not of the form that was asked for."""

    code, title = "answer-unreadable", "The answer cannot be read"


class ImagesOutsideSuite(RequestError):
    """The images are unlike all that the suite's models were trained on."""

    code, title = "images-outside-suite", "The images lie outside the suite"


class NotFound(RequestError):
    """The address names nothing."""

    code, status, title = "not-found", 404, "Not found"


class QuotaExceeded(RequestError):
    """The request asks for more than its quota."""

    code, status, title = "quota-exceeded", 429, "Quota exceeded"


class PriceMissing(RequestError):
    """A run has a budget in US dollars, and a model that it calls has no price."""

    code, title = "price-missing", "A price is missing"


class BudgetSpent(RequestError):
    """A run may ask servers of others for no more."""

    code, status, title = "budget-spent", 409, "The run's budget is spent"


class RunNotCancellable(RequestError):
    """The run has already ended."""

    code, status, title = "run-not-cancellable", 409, "The run can no longer be cancelled"


class RunNotEnded(RequestError):
    """Only an ended run can be continued by another."""

    code, status, title = "run-not-ended", 409, "The run has not ended"


class RunNotResumable(RequestError):
    """The run has nothing to resume."""

    code, status, title = "run-not-resumable", 409, "The run cannot be resumed"


class RunNotDeletable(RequestError):
    """The run has not ended, or another run's evidence needs it."""

    code, status, title = "run-not-deletable", 409, "The run cannot be deleted"


class BackendError(CounterposeError):
    """A service failed."""

    code, status, title = "backend-unavailable", 503, "A service is not available"
    retryable = True


class BackendUnavailable(BackendError):
    """The service is down or does not accept work."""


class FunctionGone(BackendError):
    """A function or model object of the caller's program does not answer: the program has ended."""

    code, status, title = "function-gone", 503, "The function is not served any more"
    retryable = False


class BadBackendOutput(BackendError):
    """The service answered with a wrong shape, NaN or too few items."""

    code, status, title = "bad-backend-output", 502, "The output of a service is unusable"


class ClusterRefused(BackendError):
    """A Ray cluster does not take this gateway's token, runs another version of Ray, or refuses the job."""

    code, status, title = "cluster-refused", 502, "The Ray cluster cannot be used"
    retryable = False


class DeadlineExceeded(BackendError):
    """The call did not end before its deadline."""

    code, status, title = "deadline-exceeded", 504, "The deadline has passed"


class ResourceExhausted(BackendError):
    """This item needs more memory than the device has."""

    code, status, title = "resource-exhausted", 507, "Out of memory"


class StorageError(CounterposeError):
    """The store failed."""

    code, title = "artifact-corrupt", "The store failed"


class ArtifactCorrupt(StorageError):
    """Stored bytes no longer match their digest."""

    title = "A stored artifact is corrupt"


class ArtifactMissing(StorageError):
    """No bytes are stored under this digest."""

    code, status, title = "artifact-missing", 404, "No such artifact"


class LedgerDamaged(StorageError):
    """The ledger's database is damaged; nothing is read from it or written to it any more."""

    code, status, title = "ledger-damaged", 500, "The ledger is damaged"


class LedgerMismatch(StorageError):
    """The ledger is not the one that the store's files belong to; raised where a process starts."""

    code, status, title = "ledger-mismatch", 500, "The ledger is not the store's"


class DiskFailed(StorageError):
    """The disk of the store or of the ledger failed as it was written to; this process writes no more.

    Retryable, as the process that starts in its place may write.
    """

    code, status, title = "disk-failed", 500, "The disk failed"
    retryable = True


class StorageFull(StorageError):
    """The disk of the store or of the ledger is full."""

    code, status, title = "storage-full", 507, "The store is full"
    retryable = True


class AttentionNotHooked(CounterposeError):
    """An attention control attached to no layer: the edit would silently do nothing."""

    code, title = "attention-not-hooked", "The attention control attached to no layer"


class NumericalFailure(CounterposeError):
    """A sample became NaN or infinite."""

    code, title = "numerical-failure", "A sample is not finite"


class Cancelled(CounterposeError):
    """The work was cancelled."""

    code, status, title = "cancelled", 409, "Cancelled"


class LeaseLost(CounterposeError):
    """Another worker owns the item now; nothing is written."""

    code, status, title = "lease-lost", 409, "The lease is lost"


class InternalError(CounterposeError):
    """A failure that nothing else in this tree describes."""


def _leaves(root: type[CounterposeError]) -> Iterator[type[CounterposeError]]:
    children = root.__subclasses__()
    if not children:
        yield root
    for child in children:
        yield from _leaves(child)


def error_classes() -> dict[str, type[CounterposeError]]:
    """Map each stable code to its class."""
    return {leaf.code: leaf for leaf in sorted(_leaves(CounterposeError), key=lambda leaf: leaf.code)}


def error_for(
    code: str, detail: str, *, pointer: str | None = None, parts: Sequence[CounterposeError] = ()
) -> CounterposeError:
    """Build the error that ``code`` names; an unknown code becomes InternalError."""
    return error_classes().get(code, InternalError)(detail, pointer=pointer, parts=parts)
