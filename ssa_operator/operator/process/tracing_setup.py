"""Decides by the standard variables OTEL_* whether `run` records traces.

Promises:
- Without an endpoint nothing of OpenTelemetry is imported, and traces add no cost to a reconcile.
- If a setting can't be met, the operator logs a warning and runs without traces.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssa_operator.operator.traces import Traces

log = logging.getLogger("ssa_operator")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def wanted(environment: Mapping[str, str]) -> str | None:
    """The variable with the endpoint that traces go to, None if no traces are wanted."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    return next((name for name in ENDPOINTS if environment.get(name)), None)


def traces_of(environment: Mapping[str, str]) -> Traces | None:
    """The recorder of traces that the environment asks for, None without one."""
    variable = wanted(environment)
    if not variable:
        return None
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        log.warning("no traces are recorded: the operator sends http/protobuf, and OTEL_* ask for %s", protocol)
        return None
    try:
        from ssa_operator.operator.traces import Traces
    except ImportError:
        log.warning("no traces are recorded, although %s is set; pip install 'ssa-operator[otel]'", variable)
        return None
    return Traces(environment)
