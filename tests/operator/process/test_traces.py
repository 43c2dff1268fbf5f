"""Traces of `run`, as an OTLP collector receives them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from ssa_operator.operator.process.session import traces_of, wanted
from tests.cli.process import started
from tests.operator.harness import ECHOES, PATIENCE, Desk, echo, only, plain_template

CONFIG_MAP = plain_template("ConfigMap")
SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ name }}\nstringData:\n  word: hidden-content\n"
REFUSED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: HIDDEN-NAME}\n"


class Collector:
    """What a collector received. Each span is (name, the parent's name)."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.url = ""
        self._received = asyncio.Event()

    async def post(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self._received.set()
        return web.Response()

    @property
    def spans(self) -> list[Span]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies)
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def services(self) -> set[str]:
        requests = map(ExportTraceServiceRequest.FromString, self.bodies)
        attributes = [
            each for request in requests for found in request.resource_spans for each in found.resource.attributes
        ]
        return {each.value.string_value for each in attributes if each.key == "service.name"}

    async def until(self, *names: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not set(names) <= {span.name for span in self.spans}:
                self._received.clear()
                await self._received.wait()


@contextlib.asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.add_routes([web.post("/v1/traces", collector.post)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


def attributes(span: Span) -> dict[str, str]:
    return {each.key: each.value.string_value or str(each.value.int_value) for each in span.attributes}


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_collector_receives_a_trace_of_each_reconcile_with_its_stages_and_requests(
    desk: Desk, templates: Path
) -> None:
    only(templates, a=CONFIG_MAP, b=SECRET, c=REFUSED)
    arguments = ("run", f"--templates={templates}", f"--namespace={desk.namespace}", "--listen=", "--resync-rate=0")
    async with collecting() as collector:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        async with started(*arguments, f"--kubeconfig={desk.kubeconfig}", **environment) as command:
            await desk.apply(echo("web"))
            await collector.until("reconcile", "publish", "apply secrets")
            command.process.send_signal(signal.SIGTERM)
            assert await command.ended() == 0
        spans = collector.spans
        assert collector.services == {"ssa-operator"}
    by_id = {span.span_id: span for span in spans}
    below = {(span.name, by_id[span.parent_span_id].name if span.parent_span_id else "") for span in spans}
    assert {
        ("reconcile", ""),
        ("observe", "reconcile"),
        ("render", "observe"),
        ("plan", "reconcile"),
        ("act", "reconcile"),
        ("apply configmaps", "act"),
        ("apply secrets", "act"),
        ("publish", "reconcile"),
    } <= below
    assert all(span.parent_span_id for span in spans if span.name != "reconcile"), "a watch is no part of a trace"
    first = next(span for span in spans if span.name == "reconcile")
    found = attributes(first)
    assert (found["ssa_operator.folder"], found["ssa_operator.parent.name"]) == (ECHOES, "web")
    assert found["ssa_operator.reconcile.result"] == "failed"
    refused = [span for span in spans if attributes(span).get("http.response.status_code") == "422"]
    assert refused
    assert all(span.status.code == Status.STATUS_CODE_ERROR for span in refused)
    sent = b"".join(collector.bodies)
    assert b"hidden-content" not in sent
    assert b"HIDDEN-NAME" not in sent


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported() -> None:
    script = (
        "import sys; from ssa_operator.operator.process import session;"
        "from ssa_operator.operator.process.session import traces_of;"
        "assert traces_of({}) is None; print([name for name in sys.modules if 'opentelemetry' in name])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "True"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, None),
    ],
)
def test_the_standard_variables_decide_whether_traces_are_recorded(
    environment: dict[str, str], expected: str | None
) -> None:
    assert wanted(environment) == expected


def test_an_endpoint_without_the_extra_is_a_warning_that_names_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "ssa_operator.operator.traces", None)
    assert traces_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}) is None
    assert "pip install 'ssa-operator[otel]'" in caplog.text


def test_another_protocol_is_a_warning_that_names_it(caplog: pytest.LogCaptureFixture) -> None:
    assert traces_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}) is None
    assert "ask for grpc" in caplog.text
