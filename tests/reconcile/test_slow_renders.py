"""Renders that take their whole time, while the event loop goes on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.operator import template_sources
from ssa_operator.rendering import render as rendering
from ssa_operator.rendering.folder.loaded_folders import load_all
from ssa_operator.rendering.jinja import predicates
from ssa_operator.rendering.values import limits
from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    config_map,
    echo,
    holds,
    map_template,
    not_ready_because,
    only,
    ready_condition,
)

pytestmark = pytest.mark.cluster

SLOW = 1000
"""A replica count with which a template never ends."""

LOOP = (
    "{% if spec.replicas >= 1000 %}\n"
    "{% for a in range(1000) %}{% set x = range(2000) | map('string') | map('length') | sum %}{% endfor %}\n"
    "{% endif %}\n"
)
"""It takes long and counts little: a sort reaches the limit of work before that of time on a fast machine."""

BUSY = 60.0
"""Seconds that a render has where a busy machine must not end it."""

TAKES_SECOND = "rendering takes longer than 1 second"


@contextlib.contextmanager
def counted_turns(monkeypatch: pytest.MonkeyPatch, function: str, module: Any = rendering) -> Iterator[list[int]]:
    """The turns that the event loop had during each render that came to its end and that had more than one."""
    turns, found = 0, list[int]()
    render = getattr(module, function)

    def count() -> None:
        nonlocal turns
        turns += 1
        handles[0] = loop.call_later(0, count)

    def counting(*arguments: Any, **options: Any) -> Any:
        before = turns
        result = render(*arguments, **options)
        if turns > before:
            found.append(turns - before)
        return result

    loop = asyncio.get_running_loop()
    handles = [loop.call_soon(count)]
    monkeypatch.setattr(module, function, counting)
    try:
        yield found
    finally:
        handles[0].cancel()
        monkeypatch.undo()


@contextlib.contextmanager
def held_in_thread(monkeypatch: pytest.MonkeyPatch, function: str) -> Iterator[None]:
    """Let no render in a thread go on until the end of the block."""
    go_on, render = threading.Event(), getattr(rendering, function)

    def held(*arguments: Any, **options: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            go_on.wait()
        return render(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(rendering, function, held)
        try:
            yield
        finally:
            go_on.set()


@pytest.mark.exhaustive
async def test_the_event_loop_goes_on_while_a_parent_takes_its_whole_time(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted_turns(monkeypatch, "render") as turns:
        async with operate(workers=2) as running:
            only(running.templates, a=LOOP + map_template("a", n="spec.replicas"))
            await desk.apply(*(echo(f"slow-{number}", SLOW) for number in range(4)))
            await desk.apply(*(echo(f"web-{number}") for number in range(3)))
            for number in range(3):
                await desk.ready(ECHOES, f"web-{number}")
            failed = await desk.until(ECHOES, "slow-0", not_ready_because("RenderFailed", TAKES_SECOND))
            assert f"{ECHOES}/a.yaml.j2:2: " in ready_condition(failed)["message"]
            assert turns
            assert min(turns) > 10
            await desk.apply_until_ready(echo("slow-0", 2))
            await desk.until("configmaps", "slow-0-a", holds(n="2"))


async def test_the_event_loop_goes_on_while_a_status_takes_its_whole_time(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted_turns(monkeypatch, "render_status") as turns:
        async with operate() as running:
            only(running.templates, a=map_template("a", n="spec.replicas"), _status=LOOP + "readyReplicas: 1\n")
            await desk.apply(echo("slow", SLOW), echo("web"))
            await desk.until(ECHOES, "web", lambda body: body.get("status", {}).get("readyReplicas") == 1)
            await desk.until("configmaps", "slow-a", holds(n=str(SLOW)))
            await desk.until(ECHOES, "slow", lambda body: TAKES_SECOND in str(body.get("status")))
            assert turns
            assert min(turns) > 10
            await desk.apply(echo("slow", 2))
            await desk.until(ECHOES, "slow", lambda body: body.get("status", {}).get("readyReplicas") == 1)


PAUSE = LOOP.replace("range(1000)", "range(4)")
"""A part of a template that takes longer than renders have on the event loop, and comes to its end."""


async def test_a_slow_parent_renders_in_a_thread_from_the_beginning_whatever_its_status_takes(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_loop, render = list[bool](), rendering.render

    def counting(*arguments: Any, **options: Any) -> Any:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return render(*arguments, **options)

    async with operate() as running:
        only(running.templates, a=PAUSE + map_template("a", n="spec.replicas"), _status="readyReplicas: 1\n")
        await desk.apply_until_ready(echo("slow", SLOW))
        monkeypatch.setattr(rendering, "render", counting)
        await desk.apply_until_ready(echo("slow", SLOW + 1))
        await desk.until("configmaps", "slow-a", holds(n=str(SLOW + 1)))
    assert on_loop
    assert not any(on_loop)


HOOK = map_template("bye", n="spec.replicas").replace(
    "\ndata:\n", "\n  annotations:\n    ssa-operator.dev/on: finalize\ndata:\n"
)


@pytest.mark.exhaustive
async def test_finalize_hooks_whose_render_is_slow_run_and_hold_up_no_other_parent(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SECONDS_LIMIT", BUSY)
    slow, hooks, view = [f"slow-{number}" for number in range(3)], set[str](), await desk.view("configmaps")
    view.cache.listen(lambda _, live: hooks.add(live.identity.name) if live and "-bye" in live.identity.name else None)
    async with operate(workers=2) as running:
        only(running.templates, a=map_template("a", n="spec.replicas"), bye=PAUSE + HOOK)
        for name in slow:
            await desk.apply_until_ready(echo(name, SLOW))
        with held_in_thread(monkeypatch, "render"):
            for name in slow:
                await desk.delete("echo", name, wait=False)
            await desk.apply_until_ready(echo("web"))
            await desk.delete("echo", "web")
            for name in slow:
                assert "deletionTimestamp" in (await desk.read(ECHOES, name))["metadata"]
            assert hooks == {"web-bye"}
        for name in slow:
            await desk.gone(ECHOES, name)
    assert hooks == {"web-bye", *(f"{name}-bye" for name in slow)}


ENDLESS = " | ".join(["range(99000)", *["map('string') | map('length')"] * 9, "sum > 0"])
"""An expression that takes longer than a second."""

LONG = "range(30000) | map('string') | map('length') | sum > 0"
"""One that holds, and takes longer than expressions have on the event loop."""


def task(expression: str, name: str = "a", **annotations: str) -> str:
    """A template of a ConfigMap that is ready when an expression holds."""
    lines = {"ready-when": expression, **annotations}
    written = "".join(f'    ssa-operator.dev/{key}: "{value}"\n' for key, value in lines.items())
    return map_template(name, n="spec.replicas").replace("\ndata:\n", f"\n  annotations:\n{written}data:\n")


async def test_the_event_loop_goes_on_while_an_expression_of_readiness_takes_its_whole_time(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted_turns(monkeypatch, "_judgement", predicates) as turns:
        async with operate() as running:
            only(running.templates, a=task(f"data.n != '{SLOW}' or ({ENDLESS})"))
            await desk.apply(echo("slow", SLOW))
            await desk.until(ECHOES, "slow", not_ready_because("Progressing", TAKES_SECOND))
            assert turns
            assert min(turns) > 10
            await desk.apply_until_ready(echo("slow", 2))


@pytest.mark.exhaustive
async def test_the_event_loop_goes_on_while_suspend_when_takes_its_whole_time(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with counted_turns(monkeypatch, "_judgement", predicates) as turns:
        async with operate() as running:
            only(running.templates, a=map_template("a", n="spec.replicas"))
            running.write(f"{ECHOES}/_settings.yaml", f'suspendWhen: "spec.replicas >= {SLOW} and ({ENDLESS})"\n')
            await desk.apply_until_ready(echo("slow", SLOW))
            assert turns
            assert min(turns) > 10


@pytest.mark.exhaustive
async def test_what_comes_after_a_child_whose_expression_takes_long_is_applied(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SECONDS_LIMIT", BUSY)
    async with operate() as running:
        after = {"after": "ConfigMap/{{ name }}-a"}
        only(
            running.templates,
            a=task(LONG),
            b=task(LONG, "b", **after),
            c=task("true", "c", after="ConfigMap/{{ name }}-b"),
        )
        await desk.apply_until_ready(echo("web"))
        await desk.until("configmaps", "web-c", holds(n="1"))
        await desk.apply_until_ready(echo("web", 2))
        await desk.until("configmaps", "web-c", holds(n="2"))


@pytest.mark.exhaustive
async def test_a_slow_render_sees_one_moment_and_what_changes_meanwhile_is_rendered_again(
    desk: Desk, operate: Operate
) -> None:
    pause = "{% for a in range(3) %}{% for b in range(90000) %}{% endfor %}{% endfor %}\n"
    read = "{{ (lookup_all('v1', 'ConfigMap', labels={'%s': 'b'}) | first).data.a }}"
    settings = config_map("settings", a="1")
    settings["metadata"]["labels"] = {"one": "b", "two": "b"}
    view, seen = await desk.view("configmaps"), list[dict[str, str]]()
    view.cache.listen(lambda _, live: seen.append(live.body["data"]) if live and live.identity.name == "m" else None)
    async with operate() as running:
        head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n"
        only(running.templates, a=f'{head}  one: "{read % "one"}"\n{pause}  two: "{read % "two"}"\n')
        await desk.apply(settings, echo("web"))
        await desk.until("configmaps", "m", holds(one="1", two="1"))
        for number in range(2, 30):
            settings["data"]["a"] = str(number)
            await desk.apply(settings)
        await desk.until("configmaps", "m", holds(one="29", two="29"))
    assert [data for data in seen if data["one"] != data["two"]] == []


async def test_the_event_loop_goes_on_while_changed_templates_are_loaded(
    desk: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, went_on = asyncio.get_running_loop(), list[bool]()

    def loaded(*arguments: Any) -> Any:
        turn = threading.Event()
        loop.call_soon_threadsafe(turn.set)
        went_on.append(turn.wait(10))
        return load_all(*arguments)

    only(templates, maps=map_template("before", x="1"))
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web", 1))
        monkeypatch.setattr(template_sources, "load_all", loaded)
        only(templates, maps=map_template("after", x="1"))
        await desk.read("configmaps", "web-after")
    assert went_on
    assert all(went_on)


SLOW_STATUS = {"a": map_template("a", n="spec.replicas"), "_status": LOOP + "readyReplicas: 1\n"}


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("function", "texts"),
    [("render", {"a": LOOP + map_template("a", n="spec.replicas")}), ("render_status", SLOW_STATUS)],
    ids=["the templates", "the status template"],
)
async def test_parents_that_wait_for_the_thread_hold_up_no_other_parent(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch, function: str, texts: dict[str, str]
) -> None:
    monkeypatch.setattr(limits, "SECONDS_LIMIT", 0.2)
    slow = [f"slow-{number}" for number in range(4)]
    async with operate(workers=2) as running:
        only(running.templates, **texts)
        with held_in_thread(monkeypatch, function):
            await desk.apply(*(echo(name, SLOW) for name in slow))
            await desk.apply_until_ready(echo("web"))
            await desk.apply_until_ready(echo("web", 3))
            await desk.until("configmaps", "web-a", holds(n="3"))
            for name in slow:
                assert "status" not in await desk.read(ECHOES, name)
        if function == "render_status":
            await desk.until_event(
                "Created", "slow-0-a", about="slow-0"
            )  # whose first reconcile ended before its status
        for name in slow:
            await desk.until(ECHOES, name, lambda body: "rendering takes longer than 0.2 s" in str(body.get("status")))
        await desk.apply_until_ready(echo("slow-0", 2))
        await desk.until("configmaps", "slow-0-a", holds(n="2"))
