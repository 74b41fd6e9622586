"""Traces: OpenTelemetry's spans where they are asked for, and nothing otherwise.

OpenTelemetry is an extra (``counterpose[otel]``), imported by `tracing_to` alone. A trace goes from process
to process as the ``traceparent`` of W3C Trace Context: a header between them, a column of the run in the
ledger.

    tracing = tracing_to("http://127.0.0.1:4318", "counterpose-gateway")
    with tracing.span("POST /v1/stress-tests", kind="server", parent=headers.get("traceparent")):
        ...
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

from counterpose_core.contract.base import TRACE_HEADER
from counterpose_core.installation import adding

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

SpanKind = Literal["internal", "server", "client"]
Attribute = str | int | float | bool
ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The variable that tells every program of OpenTelemetry where spans go."""
TRACE: ContextVar[str | None] = ContextVar("trace", default=None)
"""The ``traceparent`` of the request that this task answers, for what goes on after the answer."""

_logger = logging.getLogger(__name__)


class Tracing:
    """Makes spans of one process, or none at all without a ``provider``."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider
        self._tracer = None if provider is None else provider.get_tracer("counterpose")

    @property
    def is_on(self) -> bool:
        """Whether spans are made."""
        return self._tracer is not None

    @contextmanager
    def span(
        self,
        name: str,
        *,
        kind: SpanKind = "internal",
        parent: str | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Iterator[None]:
        """Make a span of the block, which fails with it.

        Args:
            name: what is done; few different values.
            kind: whether it answers a call, makes one, or neither.
            parent: the ``traceparent`` of its parent; None for the span that this task is in, if any.
            attributes: more about it.
        """
        if self._tracer is None:
            yield
            return
        from opentelemetry.trace import SpanKind as Kind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = None if parent is None else TraceContextTextMapPropagator().extract({TRACE_HEADER: parent})
        with self._tracer.start_as_current_span(
            name, context=context, kind=Kind[kind.upper()], attributes=attributes
        ):
            yield

    def current(self) -> str | None:
        """Return the ``traceparent`` of the span that this task is in, or None."""
        if self._tracer is None:
            return None
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        return carrier.get(TRACE_HEADER)

    def close(self) -> None:
        """Send the spans that have ended."""
        if self._provider is not None:
            self._provider.shutdown()


def tracing_to(endpoint: str | None, program: str) -> Tracing:
    """Return what sends a program's spans to a collector, by OTLP over HTTP; nothing without an ``endpoint``.

    Further settings, such as headers and the sampler, are OpenTelemetry's own variables. Where its packages
    are missing, a warning says so and no span is made.
    """
    if not endpoint:
        return Tracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        _logger.warning(
            "%s is set, but there is no %s: no trace is sent; %s",
            ENDPOINT_VARIABLE, error.name, adding("otel"),
        )  # fmt: skip
        return Tracing()
    provider = TracerProvider(resource=Resource.create({"service.name": program}))
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)
