"""An inference request and its answer on the wire: JSON, or JSON followed by binary tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pydantic import BaseModel, Field, ValidationError

from counterpose_core.errors import InvalidRequest
from counterpose_services.open_inference.tensors import InputTensor, OutputTensor, TensorSpec, binary_of

BINARY = "binary_tensor_data"
"""The protocol's name of the extension that sends tensors as bytes after the JSON."""
LENGTH_HEADER = "inference-header-content-length"
"""How many bytes of a body are JSON; the binary tensors follow."""
UNKNOWN_HERE = ("classification", "shared_memory_region")
"""Extensions that change the answer: to ignore them would answer another question."""
_SIZE, _WANTS, _WANTS_ALL = "binary_data_size", "binary_data", "binary_data_output"


class RequestedOutput(BaseModel):
    """An output that a request names."""

    name: str
    parameters: dict[str, Any] = {}


class InferenceRequest(BaseModel):
    """The body of ``POST /v2/models/<name>/infer``."""

    id: str | None = None
    parameters: dict[str, Any] = {}
    inputs: list[InputTensor] = Field(min_length=1, max_length=16)
    outputs: list[RequestedOutput] | None = None


class ModelMetadata(BaseModel):
    """The answer of ``GET /v2/models/<name>``."""

    name: str
    versions: list[str] = Field(default=[], exclude_if=lambda given: not given)
    platform: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    parameters: dict[str, Any] = Field(default={}, exclude_if=lambda given: not given)


def read_request(body: bytes, header: str | None) -> InferenceRequest:
    """Read a body, of which the first ``header`` bytes are JSON; without it, all are.

    Raises:
        InvalidRequest: it does not follow the protocol, or asks for an extension that is not served.
    """
    length = _json_length(body, header)
    try:
        request = InferenceRequest.model_validate(json.loads(body[:length], parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the body is no inference request: {_reason(error)}") from error
    for part in (request, *request.inputs, *(request.outputs or ())):
        if found := next((name for name in UNKNOWN_HERE if name in part.parameters), None):
            raise InvalidRequest(f"the parameter {found!r} belongs to an extension that is not served here")
    return request.model_copy(update={"inputs": _with_binary(request.inputs, body[length:])})


def select_inputs(request: InferenceRequest, specs: Sequence[TensorSpec]) -> dict[str, InputTensor]:
    """Return the inputs by name: each that the model has, once, and no other.

    Raises:
        InvalidRequest: one is missing, unknown or sent twice.
    """
    known = [spec.name for spec in specs]
    given = [tensor.name for tensor in request.inputs]
    for name in given:
        if name not in known:
            raise InvalidRequest(f"the model has no input {name[:100]!r}; its inputs are {', '.join(known)}")
        if given.count(name) > 1:
            raise InvalidRequest(f"the input {name!r} is sent twice")
    if missing := [name for name in known if name not in given]:
        raise InvalidRequest(
            f"the input {missing[0]!r} is missing; the model's inputs are {', '.join(known)}"
        )
    return {tensor.name: tensor for tensor in request.inputs}


def write_answer(
    request: InferenceRequest, metadata: ModelMetadata, outputs: Sequence[OutputTensor]
) -> tuple[bytes, Mapping[str, str]]:
    """Return the body and the headers of an answer, with the requested outputs alone."""
    made = {output.name: output for output in outputs}
    specs = {spec.name: spec for spec in metadata.outputs}
    described: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for wanted in request.outputs or [RequestedOutput(name=name) for name in made]:
        output = made[wanted.name]
        entry: dict[str, Any] = {"name": output.name, "datatype": specs[output.name].datatype}
        entry["shape"] = [len(output.values)] if isinstance(output.values, list) else [*output.values.shape]
        if wanted.parameters.get(_WANTS, request.parameters.get(_WANTS_ALL, False)) is True:
            binary.append(binary_of(output))
            entry["parameters"] = {_SIZE: len(binary[-1])}
        else:
            values = output.values
            entry["data"] = values if isinstance(values, list) else values.ravel().tolist()
        described.append(entry)
    answer: dict[str, Any] = {"model_name": metadata.name, "outputs": described}
    if request.id is not None:
        answer["id"] = request.id
    encoded = json.dumps(answer, allow_nan=False).encode()
    if not binary:
        return encoded, {"content-type": "application/json"}
    headers = {"content-type": "application/octet-stream", LENGTH_HEADER: str(len(encoded))}
    return b"".join((encoded, *binary)), headers


def require_outputs(request: InferenceRequest, specs: Sequence[TensorSpec]) -> None:
    """Check the outputs that a request names before anything is computed.

    Raises:
        InvalidRequest: the model has no such output.
    """
    known = [spec.name for spec in specs]
    for wanted in request.outputs or ():
        if wanted.name not in known:
            raise InvalidRequest(
                f"the model has no output {wanted.name[:100]!r}; its outputs are {', '.join(known)}"
            )


def _json_length(body: bytes, header: str | None) -> int:
    if header is None:
        return len(body)
    if not header.isdecimal() or len(header) > 12 or int(header) > len(body):
        raise InvalidRequest(
            f"{LENGTH_HEADER} is {header[:100]!r}, which is no length within the body's {len(body)} bytes"
        )
    return int(header)


def _with_binary(inputs: Sequence[InputTensor], binary: bytes) -> list[InputTensor]:
    """Give each input that says so its bytes of what follows the JSON, in order."""
    found, at = [], 0
    for tensor in inputs:
        size = tensor.parameters.get(_SIZE)
        if size is None:
            found.append(tensor)
            continue
        if type(size) is not int or size < 0 or at + size > len(binary):
            raise InvalidRequest(
                f"{_SIZE} of the input {tensor.name[:100]!r} is {size!r}, more than the bytes after the JSON"
            )
        if tensor.data is not None:
            raise InvalidRequest(f"the input {tensor.name[:100]!r} has both data and {_SIZE}; send one")
        found.append(tensor.model_copy(update={"binary": binary[at : at + size]}))
        at += size
    if at != len(binary):
        raise InvalidRequest(f"{len(binary) - at} bytes after the JSON belong to no input's {_SIZE}")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidConstant(f"{name} is no number that JSON knows")


class InvalidConstant(ValueError):
    """NaN or an infinity stands in the JSON."""


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
