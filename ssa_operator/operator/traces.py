"""Traces of reconciles by OpenTelemetry's SDK, which the extra `otel` installs.

Promises:
- A reconcile is one span. Its stages, and within them its requests, are spans below it.
- No span has an object's content, a query, an error's message or a child's name: each may come from a Secret.
- Spans are sent by a thread. A collector that doesn't answer delays no reconcile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from ssa_operator import __version__
from ssa_operator.kube.api.request import Request
from ssa_operator.reconcile.context import current

SHUTDOWN_MILLISECONDS = 5000
"""The time that the last spans have to be sent when the operator stops."""


class Traces:
    """Records spans and sends them, configured by the standard variables OTEL_*."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        attributes = {"service.version": __version__}
        if "OTEL_SERVICE_NAME" not in environment and "service.name" not in environment.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        ):
            attributes["service.name"] = "ssa-operator"
        self._provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("ssa_operator", __version__)

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, str]) -> Iterator[None]:
        """A span of the block, a child of the span of the block around it."""
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(Status(StatusCode.ERROR))
                raise

    def result(self, result: str) -> None:
        """The result of the present reconcile, as its metric has it."""
        span = trace.get_current_span()
        span.set_attribute("ssa_operator.reconcile.result", result)
        if result == "error":
            span.set_status(Status(StatusCode.ERROR))

    def request(self, request: Request, code: int, seconds: float) -> None:
        """A span of a request that ended now, if a reconcile sent it."""
        if current() is None:
            return
        ended = time.time_ns()
        span = self._tracer.start_span(
            f"{request.verb} {request.resource_name}".rstrip(),
            kind=SpanKind.CLIENT,
            start_time=ended - int(seconds * 1e9),
            attributes={
                "http.request.method": request.method,
                "ssa_operator.request.verb": request.verb,
                "ssa_operator.request.resource": request.resource_name,
            },
        )
        if code:
            span.set_attribute("http.response.status_code", code)
        if not code or code >= 400:
            span.set_attribute("error.type", str(code) if code else "no answer")
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended)

    def close(self) -> None:
        """Send the last spans. It blocks for a few seconds at most."""
        self._provider.force_flush(SHUTDOWN_MILLISECONDS)
        self._provider.shutdown()
