"""A receiver of traces: OTLP over HTTP, read by OpenTelemetry's own protobuf messages."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

ARRIVAL_SECONDS = 60.0


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it arrived; ids are in hexadecimal, ``parent`` is empty for a root."""

    program: str
    name: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, str]
    seconds: float


class OtlpReceiver:
    """Keeps what was sent to ``url``."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    content = gzip.decompress(content)
                assert self.path == "/v1/traces"
                receiver.spans += _spans(ExportTraceServiceRequest.FromString(content))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """The endpoint that programs are told."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def wait_for(self, programs: set[str]) -> None:
        """Wait until a span of each of these programs has arrived, and no more arrive."""
        until = time.monotonic() + ARRIVAL_SECONDS
        while time.monotonic() < until:
            before = len(self.spans)
            time.sleep(0.3)
            if len(self.spans) == before and programs <= {span.program for span in self.spans}:
                return
        missing = programs - {span.program for span in self.spans}
        raise AssertionError(f"no span of {sorted(missing)} arrived")


@contextmanager
def receiving() -> Iterator[OtlpReceiver]:
    """Receive traces during the block."""
    receiver = OtlpReceiver()
    serving = threading.Thread(target=receiver.server.serve_forever, daemon=True)
    serving.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()
        serving.join()


def _spans(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for resource in request.resource_spans:
        told = {each.key: each.value.string_value for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    program=told["service.name"],
                    name=span.name,
                    trace=span.trace_id.hex(),
                    id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(),
                    attributes={each.key: each.value.string_value for each in span.attributes},
                    seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                )
