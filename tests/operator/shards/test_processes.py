"""`ssa-operator run --shard` as processes: wrong values, the environment, and a shard that is killed."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.cli.process import Command, run, started
from tests.operator.harness import PATIENCE, Desk, echo, is_ready, map_template, only
from tests.operator.limited_accounts import limited

WRONG = [
    ("3", "write I/N, such as 0/4 for the first of four shards"),
    ("4/4", "shard 4 of 4 does not exist; shards are counted from 0 to 3"),
    ("0/1000", "the number of shards is 1000; it is 1 to 256"),
]


@pytest.mark.parametrize(("value", "hint"), WRONG)
async def test_a_wrong_shard_is_one_line_that_says_what_to_write(value: str, hint: str) -> None:
    code, _, err = await run("run", f"--shard={value}")
    assert (code, err) == (2, f"ssa-operator: --shard is '{value}': {hint}\n")


async def test_a_reference_that_kubernetes_did_not_replace_is_explained() -> None:
    code, _, err = await run("run", SSA_OPERATOR_SHARD="$(POD_INDEX)/4")
    assert code == 2
    assert "Kubernetes replaces $(NAME) only for an environment variable that the container defines before it" in err


async def url_of(command: Command) -> str:
    line = await command.says("listening on ")
    return line.split("listening on ")[1].strip()


async def until_metric(url: str, line: str) -> None:
    """Wait until /metrics has a line. A scrape shows the state of its moment, which no event announces."""
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as http:
        while True:
            async with http.get(f"{url}/metrics") as answer:
                if line in (await answer.text()).splitlines():
                    return
            await asyncio.sleep(0.2)


@pytest.mark.cluster
@pytest.mark.slow
async def test_a_killed_shard_is_seen_in_the_metrics_of_the_other_which_rbac_allows_it_to_see(
    desk: Desk, templates: Path, tmp_path: Path
) -> None:
    only(templates, base=map_template("base", n="spec.replicas"))
    user, namespace = f"shard-{desk.namespace}", desk.namespace
    _, text, _ = await run(
        "rbac",
        f"--templates={templates}",
        f"--namespace={namespace}",
        f"--operator-namespace={namespace}",
        f"--service-account={user}",
        "--shards=2",
    )
    bodies = list(yaml.safe_load_all(text))
    for body in bodies:
        if "subjects" in body:
            body["subjects"] = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]
    await desk.apply(*bodies)
    kubeconfig = limited(desk.kubeconfig, tmp_path, user)
    own = (f"--templates={templates}", f"--namespace={namespace}", f"--kubeconfig={kubeconfig}")
    options = ("run", *own, "--listen=127.0.0.1:0")
    async with (
        started(*options, "--shard=0/2", POD_NAMESPACE=namespace) as first,
        started(*options, SSA_OPERATOR_SHARD="1/2", POD_NAMESPACE=namespace) as second,
    ):
        await first.says("shard 0/2 reconciles the parents of the buckets 00-7f")
        await second.says("shard 1/2 reconciles the parents of the buckets 80-ff")
        url = await url_of(first)
        names = [f"web-{number}" for number in range(6)]
        await desk.create(*(echo(name) for name in names))
        for name in names:
            await desk.until("echoes.example.com", name, is_ready)
        await until_metric(url, 'ssa_operator_shard_up{shard="1"} 1.0')
        second.process.send_signal(signal.SIGKILL)
        assert await second.ended() == -signal.SIGKILL
        await until_metric(url, 'ssa_operator_shard_up{shard="1"} 0.0')
        await until_metric(url, 'ssa_operator_shard_buckets{state="uncovered"} 128.0')
        await first.says("shard 1/2 (buckets 80-ff) is gone")
    assert not any("forbidden" in line for line in first.lines)
