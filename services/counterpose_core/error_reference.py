"""Cause and remedy of every error code, and the reference page that is written from them.

After a change: ``python -m counterpose_core.error_reference docs/reference/errors.md``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from counterpose_core.errors import CounterposeError, error_classes

_HEAD = """# Errors

<!-- Written by `python -m counterpose_core.error_reference docs/reference/errors.md`; do not edit. -->

Every failure is an `application/problem+json` document (RFC 9457). Its `code` is one of the list below. Its
`detail` names the offending input and says what to do. `retryable` says whether the same request may succeed
later; the response then has a `Retry-After` header. The Python SDK raises the class that each section names,
with the same `detail`. Failed items of a run have the same codes.
"""


@dataclass(frozen=True)
class Explanation:
    """The cause of an error, and its remedy."""

    cause: str
    remedy: str


EXPLANATIONS: dict[str, Explanation] = {
    "artifact-corrupt": Explanation(
        "The bytes of a stored image or result no longer match the digest that names them.",
        "Check the disk. Restore the file from a backup, or delete it and run again what made it.",
    ),
    "artifact-missing": Explanation(
        "Nothing is stored under the requested digest, or the stored bytes are not an image.",
        "Check the digest. If the store was moved or emptied, run again what made the artifact.",
    ),
    "attention-not-hooked": Explanation(
        "The editor's attention control found no attention layer in the network, so the edit would "
        "change nothing.",
        "Use a model of the Stable Diffusion family; switch `local_blend` off if its layers are too "
        "large for it.",
    ),
    "backend-unavailable": Explanation(
        "A service or the database does not answer, or it is starting.",
        "Wait and retry. If the error persists, look at `GET /v1/services` and at the log of the service "
        "that the detail names.",
    ),
    "bad-backend-output": Explanation(
        "A service answered, but with the wrong shape, a value that is not a number, or too few outcomes.",
        "Check that the service runs the same version as the gateway and that its weights are complete. "
        "Such output is never scored.",
    ),
    "cancelled": Explanation(
        "The run was cancelled, or the client closed its connection before the answer was ready.",
        "Nothing is broken. Send the request again, or resume the run.",
    ),
    "class-map-mismatch": Explanation(
        "A label is not a class of the dataset or of the classifier, the classifier answers with another "
        "number of classes, or two class names look alike.",
        "Name the classifier's classes (`classes=`) and join the dataset's to them by a label map "
        "(`--label-map`), rename the label or the class that is named, or declare the dataset's classes.",
    ),
    "cluster-refused": Explanation(
        "A Ray cluster answers, but refuses the gateway's token, runs another version of Ray than the "
        "gateway was tested with, or refuses the job itself.",
        "Give the gateway the cluster's token (`COUNTERPOSE_CLUSTER_TOKEN_FILES`), or allow the version "
        "(`COUNTERPOSE_RAY_VERSIONS`), as the detail says.",
    ),
    "dataset-empty": Explanation(
        "No image of the dataset can be used: it has none, none could be read, or all are excluded.",
        "Add PNG, JPEG or WebP files, one folder for each class. `rejected` of the dataset says why "
        "files were refused.",
    ),
    "dataset-not-ready": Explanation(
        "A run was asked for, or images were added, while the dataset is still being imported from its URL.",
        "Wait until `imported.state` of the dataset is `done` (`counterpose datasets show NAME`). An import "
        "goes on only while a worker runs (`counterpose-gateway work`).",
    ),
    "deadline-exceeded": Explanation(
        "A call took longer than its deadline.",
        "Retry. If the error persists, send smaller requests, raise `COUNTERPOSE_CALL_SECONDS`, or give the "
        "service more replicas.",
    ),
    "disk-failed": Explanation(
        "The disk of the store or of the ledger failed as it was written to. What the system held for it "
        "in memory may be lost, so the process writes no more and ends. Nothing acknowledged is lost.",
        "Check the disk and start the process anew, as Kubernetes and systemd do by themselves; runs go on.",
    ),
    "forbidden": Explanation(
        "The API key is valid, but lacks the scope that this request needs: `read` to look, `write` to "
        "change; or it asks for the metrics, which are of all tenants, and is not of the tenant `default`.",
        "Use a key that has it. The operator makes one with `counterpose-gateway keys create`.",
    ),
    "foreign-origin": Explanation(
        "A web page of another site asked for a change, or a proxy altered the Host header.",
        "Use the gateway's own pages. Behind a proxy, pass on the Host header that the browser sent.",
    ),
    "function-gone": Explanation(
        "The program that serves a classifier of its own, a function or a model object, has ended.",
        "A run that needs it was stopped and keeps what it has. Serve it again from a program that stays, "
        "and go on: `run.resume(classifiers=[model])`, or `counterpose runs resume RUN --classifier "
        "py:module:function`.",
    ),
    "headers-too-large": Explanation(
        "The headers have more bytes than `COUNTERPOSE_MAX_HEADER_BYTES`, or are more than "
        "`COUNTERPOSE_MAX_HEADERS`. The rest was not read.",
        "Send fewer or smaller headers, or raise the limit that the detail names.",
    ),
    "idempotency-conflict": Explanation(
        "The `Idempotency-Key` was used before, with another body.",
        "Send this body under a new key. To repeat the first request, send its body unchanged.",
    ),
    "idempotency-in-flight": Explanation(
        "The first call with this `Idempotency-Key` has not ended yet.",
        "Retry after the number of seconds in `Retry-After`; the answer of the first call is then returned.",
    ),
    "image-too-large": Explanation(
        "The image has more than 64 megapixels (a WebP: 16), or its file more bytes than the limit. It was "
        "refused before it was decoded.",
        "Scale the image down, or save it as a JPEG: `mogrify -resize 50% -format jpg FILE`.",
    ),
    "image-undecodable": Explanation(
        "The bytes are not an image, or the image is damaged or cut off.",
        "Open the file in a viewer, export it again as PNG or JPEG, and upload that.",
    ),
    "images-outside-suite": Explanation(
        "Most of a run's first images are unlike those that the suite's models were trained on: captions "
        "do not fit them, or the editor cannot redraw them.",
        "Test photographs by operations, which need no generator (docs/how-to/photographs.md; the detail has "
        "the command), choose a suite with published weights for them (docs/how-to/gpu.md), or "
        'start the run with `outside_suite="continue"` (`--anyway`) to go on all the same.',
    ),
    "import-refused": Explanation(
        "A dataset was to be imported from an address that the operator does not allow, or one that leads to "
        "a private network.",
        "Ask the operator to add the beginning of the address to `COUNTERPOSE_IMPORT_FROM` of gateway and "
        "workers. Private addresses are never read over HTTPS.",
    ),
    "internal-error": Explanation(
        "A failure that Counterpose did not foresee. It is a defect, or a fault of the machine.",
        "Search the log for the `request_id` of the problem document, and report the lines that have it.",
    ),
    "invalid-request": Explanation(
        "A field is missing, unknown or out of range, or the body is not valid JSON.",
        "Correct the fields in `errors`; each has a JSON pointer into the request body.",
    ),
    "lease-lost": Explanation(
        "A worker was too slow to renew its lease, and another worker took the item over.",
        "Nothing is lost: the other worker finishes the item. If it happens often, raise "
        "`COUNTERPOSE_LEASE_SECONDS`.",
    ),
    "ledger-damaged": Explanation(
        "The ledger's database is damaged, or its file is no database: the disk fails, it was copied while "
        "it was written, or another program wrote into it. Every request that needs it gets this answer.",
        "Stop gateway and workers, check the disk, and [restore the database](../how-to/backup.md) from the "
        "last backup.",
    ),
    "malformed-request": Explanation(
        "What was sent is not HTTP, or the Host header is missing, repeated, or names no host and port.",
        "Send HTTP/1.1 with one Host header. A proxy in between may have altered the request.",
    ),
    "method-not-allowed": Explanation(
        "The path exists, but does not support this HTTP method.",
        "Use one of the methods in the `Allow` header.",
    ),
    "model-format-refused": Explanation(
        "A model file is neither safetensors nor plain ONNX, or its content contradicts its header.",
        "Convert the weights to safetensors. Pickled weights are refused because reading them runs their "
        "code.",
    ),
    "not-acceptable": Explanation(
        "The `Accept` header admits none of the media types that this address has.",
        "Leave the header out, or send one of the media types that the detail names.",
    ),
    "not-found": Explanation(
        "No route or no run has this address.",
        "Check the path against the API reference, and list the runs to find an id.",
    ),
    "numerical-failure": Explanation(
        "A model computed NaN, infinity or a zero vector for this item.",
        "Check the input image and the model's weights; on a GPU try float32. The item is never scored.",
    ),
    "payload-too-large": Explanation(
        "The request's body is larger than `COUNTERPOSE_MAX_BODY_BYTES`.",
        "Send the images in several requests, or raise the limit.",
    ),
    "policy-refused": Explanation(
        "A text of the request has a word of the operator's list (`COUNTERPOSE_POLICY_WORDS_FILE`), or a "
        "model's licence was not accepted. Edits with such a word, and images that look objectionable, are "
        "filtered.",
        "Say it otherwise, or ask the operator.",
    ),
    "prompt-too-long": Explanation(
        "A caption or prompt has more words or tokens than the text encoder reads. It is refused, never cut.",
        "Shorten the text.",
    ),
    "quota-exceeded": Explanation(
        "A run would have more items or edits than the limit allows, there would be more datasets, images or "
        "stored bytes, or the tenant's quota of this month is used up.",
        "Ask for less, raise the setting that the detail names, such as `COUNTERPOSE_MAX_ITEMS_PER_RUN`, or "
        "wait for the next month.",
    ),
    "rate-limited": Explanation(
        "A key asks too often, or an address sends too many wrong keys; or the gateway or the queue of a "
        "service is full.",
        "Retry after the number of seconds in `Retry-After`; the SDK does this automatically.",
    ),
    "request-timeout": Explanation(
        "The headers or the body of the request arrived too slowly.",
        "Send the request again over a faster connection, or in smaller parts.",
    ),
    "resource-exhausted": Explanation(
        "One item alone needs more memory than the device has.",
        "Use smaller images or a preset with fewer samples at once, or a device with more memory.",
    ),
    "run-not-cancellable": Explanation(
        "The run has already ended.",
        "Nothing needs to be done: an ended run has no further cost.",
    ),
    "run-not-deletable": Explanation(
        "The run has not ended, or it was started to prove a finding of a run that still exists.",
        "Cancel it first, or delete the run whose finding it belongs to.",
    ),
    "run-not-ended": Explanation(
        "The request proves a finding of a run that has not ended, or one that another run is still proving.",
        "Wait until the named run has ended, or cancel it.",
    ),
    "run-not-resumable": Explanation(
        "The run has not ended, or has no failed or cancelled items.",
        "Wait until it has ended. To repeat finished work, start a new run.",
    ),
    "shard-unreadable": Explanation(
        "A file of a dataset that is imported is missing, was changed while it was read, or is not a tar, an "
        "index or a Parquet file as its layout has it.",
        "Mend or restore the file that the detail names and ask for the same import again: it goes on with "
        "the shards that are left. Images that were taken in are kept.",
    ),
    "signed-url-refused": Explanation(
        "A signed link has ended, its address was altered, or the key that made it was revoked or has ended.",
        "Ask whoever shared it for another link.",
    ),
    "storage-full": Explanation(
        "The disk of the store or of the ledger is full.",
        "Free some space, then retry; the run continues where it stopped.",
    ),
    "unauthorized": Explanation(
        "The API key is missing or unknown, or a service was called without the shared secret.",
        "Send the key as `Authorization: Bearer <key>`; give the gateway and the services the same "
        "secret file.",
    ),
    "unknown-dataset": Explanation(
        "No dataset has this name.",
        "Check the name with `GET /v1/datasets`, or create the dataset.",
    ),
    "unknown-edit-type": Explanation(
        "A type in `edit_types` does not exist.",
        "Use subject, object, background, adjective or domain.",
    ),
    "unknown-model": Explanation(
        "No classifier or suite has this name.",
        "Choose one of the names in the detail, or see `GET /v1/classifiers`.",
    ),
    "unsupported-media": Explanation(
        "The file is not a still PNG, JPEG or WebP image, can be read as another format too, or the body "
        "is not JSON.",
        "Convert the image, or send `Content-Type: application/json` without `Content-Encoding`.",
    ),
}  # fmt: skip


def reference_page() -> str:
    """Return the page in Markdown: a section for each code of the closed list."""
    return _HEAD + "".join(_section(code, error) for code, error in error_classes().items())


def _section(code: str, error: type[CounterposeError]) -> str:
    explained = EXPLANATIONS[code]
    retry = "retryable" if error.retryable else "not retryable"
    return (
        f"\n## {code}\n\n{error.title}. HTTP {error.status}, {retry}, `{error.__name__}`.\n\n"
        f"**Cause.** {explained.cause}\n\n**Remedy.** {explained.remedy}\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference_page(), encoding="utf-8")
