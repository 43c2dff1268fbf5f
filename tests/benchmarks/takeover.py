"""`python -m tests.benchmarks takeover`: how soon a standby writes after it has acquired the Lease.

Promises:
- The leader is killed, so that the Lease expires, or stopped in order with `--stop`. Meanwhile a user changes one Echo.
- The time is from the event of the Lease that names the standby to the event of the Deployment that the standby
  changed, both seen by watches of one process.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.leases import LEASES
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from tests.benchmarks import workload
from tests.benchmarks.bench import Bench, bench

NAMESPACE = "takeover"
DEPLOYMENT = GroupKind("apps", "Deployment")


async def measure(parents: int, end: signal.Signals) -> tuple[float, float]:
    """The seconds from the signal that ends the leader to the standby's Lease, and from there to its first write."""
    with tempfile.TemporaryDirectory(prefix="ssa-operator-benchmark-") as folder:
        templates = workload.write_templates(Path(folder) / "templates")
        async with bench(templates) as stage:
            await stage.server.create_namespace(NAMESPACE)
            await stage.create(NAMESPACE, [f"echo-{number:05}" for number in range(parents)])
            async with stage.operator(NAMESPACE, "--leader-elect", log="leader") as leader:
                async with stage.watched(NAMESPACE) as progress:
                    await leader.until(progress.reach(parents))
                async with stage.operator(NAMESPACE, "--leader-elect", log="standby") as standby:
                    await standby.until(_logged(templates.with_name("standby.log"), f"warm for {parents} parents"))
                    taking_over = asyncio.create_task(_take_over(stage, leader.pid, end, parents // 2))
                    await standby.until(taking_over)
                    return taking_over.result()


async def _logged(log: Path, words: str) -> None:
    while words not in await asyncio.to_thread(log.read_text):  # noqa: ASYNC110 - the log is a file
        await asyncio.sleep(0.1)


async def _take_over(stage: Bench, leader: int, end: signal.Signals, number: int) -> tuple[float, float]:
    name, resources, client = f"echo-{number:05}", stage.server.resources, stage.server.client
    held = await client.get(LEASES, "ssa-operator", "default")
    holder = held.body["spec"]["holderIdentity"]
    acquired = _Seen(lambda live: live.body["spec"]["holderIdentity"] not in ("", holder))
    written = _Seen(lambda live: live.identity.name == name and live.body["spec"]["replicas"] == 99)
    watches = [
        _watch(stage, Scope(LEASES, "default", name="ssa-operator"), acquired),
        _watch(stage, Scope(resources[DEPLOYMENT], NAMESPACE), written),
    ]
    tasks = [asyncio.create_task(each.run()) for each in watches]
    await asyncio.gather(*(each.synced_or_unavailable() for each in watches))
    killed = time.perf_counter()
    os.kill(leader, end)
    patch = encode({"spec": {"replicas": 99}})
    await client.send(calls.merge_patch(resources[workload.ECHO], NAMESPACE, name, patch))
    await written.event.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return acquired.time - killed, written.time - acquired.time


class _Seen:
    """When a watch first showed an object as wanted."""

    def __init__(self, wanted: Callable[[LiveObject], bool]) -> None:
        self.event = asyncio.Event()
        self.time = 0.0
        self._wanted = wanted

    def see(self, _: LiveObject | None, live: LiveObject | None) -> None:
        if live is not None and not self.event.is_set() and self._wanted(live):
            self.time = time.perf_counter()
            self.event.set()


def _watch(stage: Bench, scope: Scope, seen: _Seen) -> Reflector:
    cache = Cache()
    cache.listen(seen.see)
    return Reflector(stage.server.client, scope, cache)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks takeover", description=__doc__)
    parser.add_argument("--parents", type=int, default=1000, help="Echos, of two children each")
    parser.add_argument("--stop", action="store_true", help="stop the leader in order (SIGTERM), instead of a kill")
    options = parser.parse_args()
    end = signal.SIGTERM if options.stop else signal.SIGKILL
    until_acquired, until_written = asyncio.run(measure(options.parents, end))
    print(f"{options.parents} Echos of 2 children, lease duration 15 s")
    print(f"from the leader's {end.name} to the standby's Lease: {until_acquired:.2f} s")
    print(f"from the standby's Lease to its first write: {until_written:.3f} s")


if __name__ == "__main__":
    main()
