"""`python -m tests.benchmarks renames`: how long /healthz takes while all children of one parent get another name.

Promises:
- Each count of children is measured on the same API server, with a parent and an operator process of its own.
- Probes are sent by a thread of this process, every 50 ms, over a connection of its own each, as the kubelet does.
- Linear growth shows as the same milliseconds a child for each count.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import socket
import tempfile
import threading
import time
from pathlib import Path

from ssa_operator.kube.api import request as calls
from ssa_operator.objects.json_codec import encode
from tests.benchmarks import workload
from tests.benchmarks.bench import Bench, bench

PROBE_EVERY = 0.05
"""Seconds between an answer and the next probe."""

TEMPLATE = """\
{% for number in range(COUNT) %}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ name }}-{{ spec.replicas }}-{{ number }}'}
data: {number: '{{ number }}'}
{% endfor %}
"""


class Probes(threading.Thread):
    """Probes until `ended`; `slowest` is the longest time to an answer, in seconds."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.ended = threading.Event()
        self.slowest = 0.0

    def run(self) -> None:
        while not self.ended.wait(PROBE_EVERY):
            began = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            connection.close()
            self.slowest = max(self.slowest, time.perf_counter() - began)


async def rename(stage: Bench, count: int) -> tuple[float, float]:
    """The seconds until all children of a parent have another name, and the slowest probe meanwhile."""
    namespace, port = f"renames-{count}", _free_port()
    await stage.server.create_namespace(namespace)
    await stage.create(namespace, ["web"])
    async with stage.operator(namespace, f"--listen=127.0.0.1:{port}") as process:
        async with stage.watched(namespace) as progress:
            await process.until(progress.reach(1))
        patch = encode({"spec": {"replicas": 1000}})
        echoes = stage.server.resources[workload.ECHO]
        probes, began = Probes(port), time.perf_counter()
        probes.start()
        await stage.server.client.send(calls.merge_patch(echoes, namespace, "web", patch))
        await process.until(_settled(stage, namespace))
        probes.ended.set()
        seconds = time.perf_counter() - began
        await asyncio.to_thread(probes.join)
    return seconds, probes.slowest


async def _settled(stage: Bench, namespace: str) -> None:
    """Return once the status of the renamed parent is Ready."""
    echoes = stage.server.resources[workload.ECHO]
    while True:
        live = await stage.server.client.get(echoes, "web", namespace)
        status = live.body.get("status") or {}
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))
        if ready and status.get("observedGeneration") == live.metadata.generation:
            return
        await asyncio.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


async def measure(counts: list[int]) -> None:
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as root:
            templates = workload.write_templates(Path(root) / "templates")
            folder = next(templates.iterdir())
            for path in folder.glob("*.j2"):
                path.unlink()
            (folder / "maps.yaml.j2").write_text(TEMPLATE.replace("COUNT", str(count)))
            (folder / "_settings.yaml").write_text(f"maxChildren: {2 * count}\n")
            async with bench(templates) as stage:
                seconds, slowest = await rename(stage, count)
        each = 1000 * seconds / count
        print(
            f"{count:6} children: {seconds:6.1f} s, {each:5.1f} ms a child, slowest /healthz {slowest:.2f} s",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure /healthz while all children of a parent are renamed.")
    parser.add_argument("counts", nargs="*", type=int, default=[500, 1000, 2000])
    asyncio.run(measure(parser.parse_args().counts))


if __name__ == "__main__":
    main()
