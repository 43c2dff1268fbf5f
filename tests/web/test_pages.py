"""The pages of the web view in a real browser, of an operator on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import ConsoleMessage, Page, async_playwright, expect

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.leases import LeaseAccess
from ssa_operator.kube.api.transport import Transport
from ssa_operator.kube.auth import credentials
from ssa_operator.operator.http import Server
from ssa_operator.operator.leadership.requests import Leadership
from ssa_operator.operator.leadership.rules import LeaseTiming
from ssa_operator.operator.operator import Operator
from ssa_operator.web.routes import WebView
from tests.cli.terminal import terminal
from tests.docs.browser import BROWSER, CONTRAST
from tests.faults.proxy import Fault, FaultProxy, Refuse
from tests.operator.harness import (
    DEPLOYMENT,
    ECHOES,
    ROOT,
    Desk,
    MakeOptions,
    Operate,
    administrator,
    echo,
    map_template,
    only,
    operating,
)
from tests.web.test_web_view import suspended

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome"),
]

PATIENCE = 30_000
"""Milliseconds for what a page is to show, on a machine that is busy."""

WAITS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-reader
data:
  dsn: {{ lookup('v1', 'ConfigMap', 'blocker').data.dsn }}
  replicas: {{ spec.replicas | string }}
"""


SPOKEN_PARENT = """\
- banner:
  - navigation "Where you are":
    - link "Overview"
  - searchbox "Find a parent"
  - status: "Connection: live"
- main:
  - status
  - heading "Echo web" [level=1]
  - region "Objects":
    - tree "Objects of Echo web":
      - treeitem /web Echo Waiting children. 1 of 2 ready created [0-9]/ [level=1] [selected]
      - treeitem /web-plain ConfigMap Current created [0-9:]+$/ [level=2]
      - treeitem /web-reader ConfigMap Waiting waiting for ConfigMap blocker.* reader.*:6 since [0-9:]+$/ [level=2]
  - region "Echo web":
    - heading /Echo web/ [level=2]
    - tablist:
      - tab "Conditions" [selected]
      - tab /Events/
      - tab "History"
      - tab "Would change"
    - tabpanel "Conditions"
  - region "Timeline of the last hour":
    - group /\\d+ entr.* in the last hour. Arrow keys choose one, plus and minus zoom./
"""
"""What a screen reader finds on the page of a parent."""

CROSSED = """() => {
  const boxes = (what) => [...document.querySelectorAll(what)].map((each) => each.getBoundingClientRect());
  const lines = boxes(".arcs > path");
  const texts = boxes(".rows .row > :not(:empty)");
  return lines.map((line) => texts.some((text) => line.left < text.right && line.right > text.left));
}"""
"""Whether each line of a dependency crosses a text of the tree."""


@contextlib.asynccontextmanager
async def browser_page(port: int, expected: Sequence[str] = (), **settings: Any) -> AsyncIterator[Page]:
    """A page of a browser. What the browser refuses or logs as an error fails the test, unless it has `expected` words:
    the browser logs each refused request.
    """
    problems: list[str] = []

    def logged(message: ConsoleMessage) -> None:
        if message.type == "error" and not any(words in message.text for words in expected):
            problems.append(message.text)

    async with async_playwright() as playwright:
        # No sandbox of its own: the tests may run as root in a container, and load nothing but these pages.
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        base = f"http://127.0.0.1:{port}"
        context = await browser.new_context(base_url=base, **{"viewport": {"width": 1440, "height": 900}} | settings)
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", logged)
        page.on("request", lambda request: None if request.url.startswith(base) else problems.append(request.url))
        try:
            yield page
        finally:
            await browser.close()
    assert problems == []


@contextlib.asynccontextmanager
async def browsing(operate: Operate, **settings: Any) -> AsyncIterator[Page]:
    """A page of a browser beside an operator."""
    async with (
        operate(listen=("127.0.0.1", 0)) as running,
        Server(running.operator, "127.0.0.1", 0, WebView(running.operator)) as server,
        browser_page(server.port, **settings) as page,
    ):
        yield page


async def test_a_waiting_child_names_what_it_needs_and_turns_when_that_is_there(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"), reader=WAITS)
    async with browsing(operate) as page:
        await page.goto("/ui/")
        await expect(page.get_by_text("There are no parents yet")).to_be_visible()
        await desk.apply(echo("web", 3))
        row = page.get_by_role("row", name="web")
        await expect(row).to_contain_text("Waiting")
        await expect(row).to_contain_text("ConfigMap")
        await row.get_by_role("link", name="web").click()
        reader = page.get_by_role("treeitem", name="web-reader")
        await expect(reader).to_contain_text("blocker")
        # The reason says since when, and leads to the blocker and to the line that reads it.
        await expect(reader.locator(".reason")).to_contain_text(re.compile(r"\(for \d+s\) · reader\.yaml\.j2:6"))
        await expect(page.locator("body")).to_match_aria_snapshot(SPOKEN_PARENT)
        await reader.get_by_role("button", name="blocker").click()
        blocker = page.get_by_role("treeitem", name="blocker ConfigMap, looked up")
        await expect(blocker).to_have_attribute("aria-selected", "true")
        await expect(blocker).to_contain_text("NotFound")
        beside = page.get_by_role("region", name="ConfigMap blocker")
        await expect(beside).to_contain_text("It does not exist.")
        await expect(beside.locator(".edges")).to_contain_text("ConfigMap web-reader")
        await reader.get_by_role("link", name="reader.yaml.j2:6").click()
        await expect(page.locator(".marked")).to_contain_text("lookup('v1', 'ConfigMap', 'blocker')")
        await page.go_back()
        await reader.locator("b").click()
        await page.get_by_role("tab", name="Needs").click()
        await expect(page.locator(".edges")).to_contain_text("reader.yaml.j2:6")
        assert await page.evaluate(CROSSED) == [False]
        # Two conditions that say the same say it once.
        await page.get_by_role("button", name="Close").click()
        said = page.locator(".conditions > div", has_text="blocker")
        await expect(said).to_have_count(1)
        await expect(said.locator("dt")).to_contain_text(["Ready", "Reconciling"])
        await expect(said.locator("dd")).to_have_count(1)
        await reader.locator("b").click()
        await desk.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blocker"}, "data": {"dsn": "db"}}
        )
        await expect(reader).to_contain_text("Current")
        announced = re.compile("ConfigMap web-reader is Current.*; 2 of 2 children are ready")
        await expect(page.get_by_role("main").get_by_role("status")).to_have_text(announced)
        await blocker.click()
        await expect(blocker).to_contain_text("Current")
        line = beside.locator(".code > div", has_text="dsn:")
        await expect(line).to_contain_text("kubectl")
        await beside.get_by_role("tab", name="Conditions").click()
        await expect(beside).to_contain_text("judged by it exists")
        await reader.locator("b").click()
        await page.get_by_role("tab", name="Manifest").click()
        line = page.locator(".code > div", has_text="replicas:")
        await expect(line).to_contain_text("reader.yaml.j2:7")
        await expect(line).to_contain_text("spec.replicas")
        # The same address shows the same to a colleague.
        await page.reload()
        await expect(page.locator(".code > div", has_text="replicas:")).to_contain_text("reader.yaml.j2:7")
        await desk.delete("echo", "web")
        await expect(page.get_by_role("alert")).to_contain_text("there is no")


async def test_a_broken_template_shows_its_line_and_goes_on_when_it_is_repaired(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    plain = map_template("plain", x="spec.replicas")
    only(templates, plain=plain, reader=WAITS)
    async with browsing(operate) as page:
        await desk.apply(echo("web"))
        await page.goto("/ui/")
        (templates / ECHOES / "plain.yaml.j2").write_text(plain + "  y: {% if %}\n")
        await page.locator(".trouble").get_by_role("link", name="plain.yaml.j2").click()
        wrong = page.locator(".wrong")
        await expect(wrong).to_contain_text("y: {% if %}")
        await expect(wrong).to_contain_text("Expected an expression")
        await page.get_by_role("tab", name="Changes").click()
        await expect(page.locator(".added")).to_contain_text("y: {% if %}")
        (templates / ECHOES / "plain.yaml.j2").write_text(plain)
        await expect(page.get_by_text("Loads")).to_be_visible()
        await expect(wrong).to_have_count(0)
        # So is a file that folders share.
        shared = templates / "_shared" / "more.j2"
        shared.parent.mkdir(exist_ok=True)
        shared.write_text("more: {{ name }}\n")
        (templates / ECHOES / "plain.yaml.j2").write_text(f"{plain}  {{% include '_shared/more.j2' %}}\n")
        files = page.get_by_role("navigation", name="Files")
        await page.get_by_role("tab", name="Files").click()
        await files.get_by_role("link", name="_shared/more.j2").click()
        await expect(page.locator(".code")).to_contain_text("more: {{ name }}")
        shared.write_text("more: {% if %}\n")
        await expect(wrong).to_contain_text("Expected an expression")
        await page.get_by_role("tab", name="Changes").click()
        await expect(page.locator(".gone")).to_contain_text("more: {{ name }}")
        shared.write_text("more: {{ name }}\n")
        await expect(page.get_by_text("Loads")).to_be_visible()
        # The graph, and the same as a table; both lead to the line.
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")
        await expect(page.locator("svg .node")).to_have_count(2)
        # What has no place is scrolled to, by keyboard too.
        await page.set_viewport_size({"width": 280, "height": 900})
        graph = page.locator("div.graph[tabindex]")
        await graph.press("ArrowRight")
        await expect(graph).not_to_have_js_property("scrollLeft", 0)
        await expect(page.get_by_role("tab", name="Graph")).to_have_attribute("aria-selected", "true")
        await page.set_viewport_size({"width": 1440, "height": 900})
        row = page.get_by_role("row", name="sample-reader")
        await expect(row).to_contain_text("blocker")
        await row.get_by_role("link", name="reader.yaml.j2:6").first.click()
        await expect(page.locator(".marked")).to_contain_text("lookup('v1', 'ConfigMap', 'blocker')")
        # What renders an object comes before what only has macros.
        (templates / ECHOES / "_macros.j2").write_text("{% macro one() %}1{% endmacro %}\n")
        await expect(files).to_contain_text("_macros.j2")
        await page.goto(f"/ui/folders/{ECHOES}")
        await expect(files.locator("[aria-current]")).to_have_text("plain.yaml.j2")


CHOICE = (
    map_template("choice", x="spec.replicas")
    + """\
{% if spec.replicas > 4 %}
  large: {{ spec.nosuch.field }}
{% endif %}
"""
)


async def test_a_file_has_beside_it_what_it_renders_for_a_parent(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, choice=CHOICE, plain=map_template("plain", x="spec.replicas"))
    file = templates / ECHOES / "choice.yaml.j2"
    async with browsing(operate) as page:
        for name in ("one", "two"):
            await desk.apply_until_ready(echo(name))
        # A line of a child leads to the line that writes it, with what it renders for this parent beside it.
        await page.goto(f"/ui/parents/{ECHOES}/{desk.namespace}/one?child=/ConfigMap/{desk.namespace}/one-choice")
        await page.locator(".code > div", has_text="x: ").get_by_role("link", name="choice.yaml.j2:6").click()
        await expect(page.locator(".marked")).to_contain_text("x: ")
        await expect(page.locator(".matched")).to_have_text('6  x: "1"')
        # A save is followed, an error is at its line, and another parent has another render.
        rendered = page.get_by_role("region", name=f"Rendered for {desk.namespace}/one")
        file.write_text(CHOICE.replace("x: ", "more: {{ name }}\n  x: "))
        await expect(rendered).to_contain_text("more: one")
        file.write_text(CHOICE.replace("x: ", "y: {{ spec.missing.field }}\n  x: "))
        wrong = page.locator(".wrong")
        await expect(wrong).to_contain_text(f"for {desk.namespace}/one: ")
        await expect(wrong.locator(".g")).to_have_text("6")
        file.write_text(CHOICE)
        await page.get_by_label("Render for").select_option(f"{desk.namespace}/two")
        await expect(page.get_by_role("region", name=f"Rendered for {desk.namespace}/two")).to_contain_text(
            "name: two-choice"
        )
        await page.get_by_role("button", name="Close the render").click()
        await expect(page.locator(".rendered")).to_have_count(0)


async def test_all_of_it_works_by_keyboard(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    async with browsing(operate) as page:
        for name in ("one", "two", "three"):
            await desk.apply_until_ready(echo(name))
        await page.goto("/ui/")
        await expect(page.locator("tr.on")).to_contain_text("one")
        await page.keyboard.press("j")
        await expect(page.locator("tr.on")).to_contain_text("three")
        await expect(page.get_by_role("link", name="three")).to_be_focused()
        await page.keyboard.press("/")
        await page.keyboard.type("two")
        await expect(page.get_by_role("row")).to_have_count(2)
        await page.keyboard.press("Escape")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Echo two")
        await page.keyboard.press("j")
        await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("two-plain")
        await page.get_by_role("tab", name="Manifest").focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", selected=True)).to_have_text("Would change")
        await page.keyboard.press("ArrowLeft")
        await page.keyboard.press("ArrowLeft")
        await expect(page.get_by_role("tab", selected=True)).to_have_text("History")
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.keyboard.press("u")
        await expect(page.get_by_role("table")).to_be_visible()


async def test_a_page_shows_what_an_apply_would_change(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"), pool=map_template("{{ spec.replicas }}", x="1"))
    async with browsing(operate) as page:
        await desk.apply_until_ready(echo("web"))
        await page.goto(f"/ui/parents/{ECHOES}/{desk.namespace}/web?child=/ConfigMap/{desk.namespace}/web-plain")
        await page.get_by_role("tab", name="Would change").click()
        await expect(page.get_by_text("An apply now would change nothing in it.")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.get_by_role("tab", name="Would change").click()
        await expect(page.get_by_text("An apply now would change nothing.")).to_be_visible()
        await desk.apply(suspended(echo("web", 5)))
        await expect(page.locator(".why")).to_contain_text("suspended")
        await page.get_by_role("button", name="check again").click()
        change = page.get_by_role("region", name="change ConfigMap web-plain")
        await expect(change).to_contain_text("data.x")
        await expect(change).to_contain_text("plain.yaml.j2:6")
        await expect(page.get_by_role("region", name="create ConfigMap web-5")).to_be_visible()
        await expect(page.get_by_role("region", name="prune ConfigMap web-1")).to_be_visible()
        assert (await desk.read("configmaps", "web-plain"))["data"] == {"x": "1"}


async def test_a_page_shows_what_happened_in_words_and_as_a_band(desk: Desk, operate: Operate, templates: Path) -> None:
    alike = {f"map{number}": map_template(f"map{number}", x="spec.replicas") for number in range(5)}
    only(templates, reader=WAITS, **alike)
    async with browsing(operate, reduced_motion="reduce") as page:
        await desk.apply(echo("web", 3))
        await page.goto("/ui/")
        await page.get_by_role("link", name="web").click()
        await expect(page.locator(".why")).to_contain_text("waiting for ConfigMap")
        await expect(page.locator(".why")).to_contain_text("reader.yaml.j2:6")
        # Equal siblings that are well are one line, which the keyboard unfolds.
        fold = page.get_by_role("treeitem", name="5 ConfigMaps")
        await expect(fold).to_contain_text("Current")
        await page.keyboard.press("j")
        await page.keyboard.press("ArrowRight")
        member = page.get_by_role("treeitem", name="web-map3")
        for attribute, value in (("aria-level", "3"), ("aria-posinset", "4"), ("aria-setsize", "5")):
            await expect(member).to_have_attribute(attribute, value)
        await page.get_by_role("tab", name="History").click()
        await desk.patch("configmap", "web-map3", data={"x": "by hand", "more": "than that"})
        history = page.locator(".history")
        await expect(history).to_contain_text("kubectl-patch changed ConfigMap web-map3 · data.more, data.x")
        await expect(history.locator("li", has_text="a child changed").first).to_contain_text("ConfigMap web-map3")
        blocker = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blocker"}, "data": {"dsn": "db"}}
        await desk.apply(blocker)
        await expect(history).to_contain_text("WaitingForDependency → Ready")
        reader = page.get_by_role("treeitem", name="web-reader")
        await expect(reader).to_contain_text("Current")
        # What changed is marked, and does not move for a reader who wants no motion.
        assert await reader.evaluate("each => getComputedStyle(each).animationName") == "none"
        band = page.get_by_role("group", name="in the last hour")
        await band.focus()
        await page.keyboard.press("Home")
        said = page.locator(".said p")
        await expect(said).not_to_contain_text("Choose a mark")
        first = await said.inner_text()
        await page.keyboard.press("End")
        await expect(said).not_to_have_text(first)
        await page.keyboard.press("+")
        await page.keyboard.press("+")
        await expect(page.locator(".marks")).to_contain_text("s ago")
        await page.keyboard.press("0")
        await expect(page.get_by_role("button", name="5 min", exact=True)).to_have_attribute("aria-pressed", "true")
        await reader.click()
        await page.get_by_role("tab", name="Conditions").click()
        await expect(page.get_by_text("judged by it exists")).to_be_visible()
        # The address of an object shows it, although its equals are one line.
        await page.reload()
        await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("web-reader")
        await expect(page.get_by_role("treeitem", name="5 ConfigMaps")).to_be_visible()
        await expect(page.locator(".lanes")).to_contain_text("Events")
        # The overview leads to the templates.
        await page.keyboard.press("u")
        await page.get_by_role("link", name=f"Templates of {ECHOES}").click()
        await expect(page.get_by_text("Loads")).to_be_visible()


@pytest.mark.slow
async def test_a_field_conflict_names_the_other_manager_until_it_ends(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    async with browsing(operate) as page:
        await desk.apply_until_ready(echo("web"))
        await page.goto(f"/ui/parents/{ECHOES}/{desk.namespace}/web?tab=history")
        child, why = page.get_by_role("treeitem", name="web-plain"), page.locator(".why")
        for number in range(6):
            await desk.patch("configmap", "web-plain", data={"x": f"by hand {number}"})
            await desk.until("configmaps", "web-plain", lambda body: body["data"]["x"] == "1")
        await expect(why).to_contain_text("Conflict")
        await expect(why).to_contain_text("kubectl-patch")
        await expect(why).to_contain_text("repeatedly changes data.x")
        await expect(page.locator(".history")).to_contain_text("kubectl-patch changed ConfigMap web-plain · data.x")
        await child.click()
        await page.get_by_role("tab", name="History").click()
        await expect(page.locator(".history")).to_contain_text("kubectl-patch")
        await page.goto("/ui/?conflict=1")
        await expect(page.get_by_role("row", name="web")).to_contain_text("Conflict")
        # The other manager is quiet from here on.
        await page.goto("/ui/")
        await expect(page.get_by_role("row", name="web")).to_contain_text("Ready", timeout=4 * PATIENCE)


@pytest.mark.slow
async def test_in_dev_a_broken_template_shows_its_line_until_it_is_repaired(tmp_path: Path) -> None:
    folder = tmp_path / "templates" / ECHOES
    folder.mkdir(parents=True)
    plain = map_template("plain", x="spec.replicas")
    (folder / "plain.yaml.j2").write_text(plain)
    (tmp_path / "examples.yaml").write_text(json.dumps(echo("web", 3)))
    crd = tmp_path / "crds" / f"{ECHOES}.yaml"
    crd.parent.mkdir()
    shutil.copy(ROOT / "crds" / crd.name, crd)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    arguments = (f"--templates={tmp_path / 'templates'}", f"--crds={crd.parent}", f"--listen=127.0.0.1:{port}")
    state = str(tmp_path / "state")
    async with terminal(
        "dev", *arguments, f"--examples={tmp_path / 'examples.yaml'}", SSA_OPERATOR_STATE_DIR=state
    ) as dev:
        await dev.shows("Ready")
        async with browser_page(port) as page:
            await page.goto("/ui/")
            await expect(page.get_by_role("row", name="web")).to_contain_text("Ready")
            (folder / "plain.yaml.j2").write_text(plain + "  y: {% if %}\n")
            await page.locator(".trouble").get_by_role("link", name="plain.yaml.j2").click()
            await expect(page.locator(".wrong")).to_contain_text("y: {% if %}")
            # The last good templates stay in use.
            (folder / "plain.yaml.j2").write_text(plain + "  z: repaired\n")
            await expect(page.get_by_text("Loads")).to_be_visible()
            await page.goto(f"/ui/parents/{ECHOES}/default/web?child=/ConfigMap/default/web-plain")
            await expect(page.locator(".code > div", has_text="z: repaired")).to_contain_text("plain.yaml.j2:7")
        dev.press("q")
        assert await dev.ended() == 0


@pytest.mark.slow
async def test_the_overview_of_each_replica_names_the_one_that_leads(
    cluster: Cluster, desk: Desk, options: MakeOptions
) -> None:
    stop = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as replicas:
        pages = []
        for name in ("first", "second"):
            fence = WriteFence()
            client = await stack.enter_async_context(Client(await administrator(cluster), fence=fence))
            transport = await stack.enter_async_context(Transport(client.credentials))
            access = LeaseAccess(transport, desk.namespace, "ssa-operator", timeout=5.0)
            leadership = Leadership(access, fence, LeaseTiming(), identity=name)
            operator = Operator(client, RESTMapper(client), options(listen=("127.0.0.1", 0)), leadership=leadership)
            server = await stack.enter_async_context(Server(operator, "127.0.0.1", 0, WebView(operator)))
            pages.append(await stack.enter_async_context(browser_page(server.port)))
            replicas.create_task(operator.run(stop))
            await pages[-1].goto("/ui/")
            figures = pages[-1].get_by_role("region", name="Figures")
            await expect(figures).to_contain_text(
                "leader first, this replica" if name == "first" else "standby; leader first"
            )
        stop.set()


@pytest.mark.slow
async def test_an_open_page_says_that_the_api_server_is_away_and_goes_on_when_it_is_back(
    cluster: Cluster, desk: Desk, options: MakeOptions, templates: Path, tmp_path: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    async with (
        FaultProxy(cluster) as proxy,
        Client(await credentials.load(str(proxy.write_kubeconfig(tmp_path / "kubeconfig")), None)) as client,
        operating(client, options(listen=("127.0.0.1", 0))) as running,
        Server(running.operator, "127.0.0.1", 0, WebView(running.operator)) as server,
        browser_page(server.port, ("of 5",)) as page,
    ):
        await desk.apply_until_ready(echo("web"))
        await page.goto(f"/ui/parents/{ECHOES}/{desk.namespace}/web")
        await expect(page.get_by_role("treeitem", name="web-plain")).to_contain_text("Current")
        overview = await page.context.new_page()
        await proxy.begin(Fault(effect=Refuse()))
        away = page.get_by_text("no connection to")
        await expect(away).to_be_visible()
        await overview.goto("/ui/")
        stale = overview.get_by_role("alert")
        await expect(stale).to_contain_text("The API server has not answered since")
        await expect(overview.locator(".banner")).to_contain_text("no connection to")
        await expect(overview.get_by_role("row", name="web")).to_contain_text("Ready")
        # What it knew stays in view.
        await expect(page.get_by_role("treeitem", name="web-plain")).to_contain_text("Current")
        (templates / ECHOES / "second.yaml.j2").write_text(map_template("second", x="spec.replicas"))
        await proxy.end()
        await expect(page.get_by_role("treeitem", name="web-second")).to_contain_text("Current")
        await expect(away).to_have_count(0)
        await expect(stale).to_have_count(0)
        await expect(page.get_by_text("live", exact=True)).to_be_visible()


@pytest.mark.slow
async def test_an_open_page_goes_on_with_the_present_state_after_a_restart_of_the_operator(
    desk: Desk, client: Client, options: MakeOptions, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    listening = options(listen=("127.0.0.1", 0))
    async with contextlib.AsyncExitStack() as cleanup:
        first = await cleanup.enter_async_context(contextlib.AsyncExitStack())
        running = await first.enter_async_context(operating(client, listening))
        server = await first.enter_async_context(Server(running.operator, "127.0.0.1", 0, WebView(running.operator)))
        port = server.port
        page = await cleanup.enter_async_context(browser_page(port, ("of 404", "of 5", "ERR_")))
        overview = await page.context.new_page()
        await desk.apply_until_ready(echo("web"))
        await page.goto(f"/ui/parents/{ECHOES}/{desk.namespace}/web")
        await expect(page.get_by_role("treeitem", name="web-plain")).to_contain_text("Current")
        await overview.goto("/ui/")
        await expect(overview.get_by_role("row", name="web")).to_contain_text("Ready")
        await first.aclose()
        for each in (page, overview):
            await expect(each.get_by_text("no answer")).to_be_visible()
        await expect(page.get_by_role("treeitem", name="web-plain")).to_contain_text("Current")
        await desk.apply(echo("second"))
        (templates / ECHOES / "second.yaml.j2").write_text(map_template("second", x="spec.replicas"))
        # What stands before the operator, such as an ingress, answers in its place meanwhile.
        async with TestServer(web.Application(), port=port):
            for each in (page, overview):
                await expect(each.get_by_role("alert")).to_contain_text("404")
        restarted = await cleanup.enter_async_context(operating(client, listening))
        view = WebView(restarted.operator)
        await cleanup.enter_async_context(Server(restarted.operator, "127.0.0.1", port, view))
        await expect(page.get_by_role("treeitem", name="web-second")).to_contain_text("Current")
        await expect(overview.get_by_role("row", name="second")).to_contain_text("Ready")
        for each in (page, overview):
            await expect(each.get_by_text("live", exact=True)).to_be_visible()
            await expect(each.get_by_role("alert")).to_have_count(0)


@pytest.mark.slow
async def test_a_page_that_was_hidden_goes_on_with_what_has_changed(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    async with browsing(operate) as page:
        session = await page.context.new_cdp_session(page)
        got: list[str] = []
        session.on("Network.eventSourceMessageReceived", lambda event: got.append(event["eventName"]))
        await session.send("Network.enable")
        await desk.apply_until_ready(echo("web"))
        await page.goto(f"/ui/parents/{ECHOES}/{desk.namespace}/web")
        await expect(page.get_by_role("treeitem", name="web-plain")).to_contain_text("Current")
        async with page.expect_event("requestfailed", lambda request: "stream=1" in request.url):
            await page.evaluate(SHOWN, False)
        (templates / ECHOES / "second.yaml.j2").write_text(map_template("second", x="spec.replicas"))
        await desk.until("configmaps", "web-second", lambda body: "x" in body["data"])
        got.clear()
        await page.evaluate(SHOWN, True)
        await expect(page.get_by_role("treeitem", name="web-second")).to_contain_text("Current")
        assert set(got) == {"change"}


SHOWN = """(shown) => {
  Object.defineProperty(document, "hidden", { value: !shown, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Makes a page believe that it is seen, or hidden behind another one."""


@pytest.mark.slow
async def test_a_pod_that_fails_leaves_its_fold_and_says_why(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, deployment=DEPLOYMENT)
    async with browsing(operate) as page:
        await desk.apply_until_ready(echo("web", 5))
        await page.goto(f"/ui/parents/{ECHOES}/{desk.namespace}/web")
        await expect(page.get_by_role("treeitem", name="5 Pods")).to_contain_text("Ready")
        await expect(page.get_by_role("treeitem", name="web Deployment")).to_contain_text("5/5")
        pods = await desk.mapper.resource_by_name("pods")
        name = (await desk.client.list(pods, desk.namespace))[0][0].identity.name
        ended = {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z", "startedAt": "2026-01-01T00:00:00Z"}
        container = {
            "name": "echo",
            "ready": False,
            "restartCount": 3,
            "image": "echo",
            "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
            "lastState": {"terminated": ended},
        }
        ready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
        status = {"containerStatuses": [container], "conditions": [ready]}
        await desk.update_as("kubelet", pods, name, {"status": status}, "status")
        pod = page.get_by_role("treeitem", name=name)
        await expect(pod).to_contain_text("container echo: CrashLoopBackOff: back-off 40s · restarted 3 times · last")
        await expect(page.get_by_role("treeitem", name="4 Pods")).to_contain_text("4/4")
        await pod.click()
        await expect(page.get_by_text("judged by the rule for Pod")).to_be_visible()
        await page.get_by_role("tab", name="Events").click()
        await expect(page.locator(".events")).to_contain_text("Scheduled")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000, 1280])
async def test_nothing_is_cut_and_every_text_has_contrast(
    desk: Desk, operate: Operate, templates: Path, width: int, scheme: str
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"), reader=WAITS)
    async with browsing(operate, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        name = "web-with-a-name-that-is-longer-than-most-names-of-parents-are"
        await desk.apply(echo(name, 3))
        await page.goto("/ui/")
        await page.get_by_role("link", name="web-with").click()
        await expect(page.get_by_role("treeitem", name="reader")).to_contain_text("Waiting")
        parent = page.url
        child = (
            f"{parent}?child=/ConfigMap/{desk.namespace}/web-with-a-name-that-is-longer-than-most-names-of-parents-are"
        )
        for following in (
            f"{parent}?tab=history",
            f"{parent}?tab=change",
            f"{child}-plain",
            f"{child}-reader&tab=needs",
            f"/ui/folders/{ECHOES}?file={ECHOES}/reader.yaml.j2&parent={desk.namespace}/{name}",
            "/ui/",
            "",
        ):
            assert await page.evaluate(CUT) == []
            assert await page.evaluate(TOO_FAINT) == []
            if following:
                await page.goto(following)
                await expect(page.locator("main")).to_contain_text(re.compile("waiting", re.IGNORECASE))


HOSTILE = "<img src=x onerror=alert(1)>{{ 7*7 }}"


async def test_a_name_or_message_is_text(desk: Desk, operate: Operate, templates: Path) -> None:
    """Messages, managers, annotations, template files and searches: each is shown as it is."""
    noted = map_template("noted", x="spec.replicas").replace(
        "metadata:", f"metadata:\n  annotations: {{a: '{HOSTILE}'}}"
    )
    noted = noted.replace("{{ 7*7 }}", "{{ '{{ 7*7 }}' }}", 1)
    only(templates, plain=f"a: {{{{ fail({HOSTILE!r}) }}}}\n", noted=noted)
    async with browsing(operate) as page:
        await desk.apply(echo("web"))
        await page.goto("/ui/")
        await expect(page.get_by_role("row", name="web")).to_contain_text(HOSTILE)
        await desk.kubectl("annotate", "configmap", "web-noted", "b=c", "--field-manager", "<img src=y>")
        await page.get_by_role("link", name="web").click()
        await page.get_by_role("treeitem", name="web-noted").click()
        await expect(page.locator(".code")).to_contain_text(HOSTILE)
        await expect(page.locator(".code")).to_contain_text("<img src=y>")
        assert await page.locator("img").count() == 0
        await page.goto(f"/ui/folders/{ECHOES}?file={ECHOES}/plain.yaml.j2")
        await expect(page.locator(".code")).to_contain_text("<img src=x")
        assert await page.locator("img").count() == 0
        await page.goto("/ui/?text=%3Cimg+src%3Dx%3E&folder=%3Cimg%3E&namespace=%3Cimg%3E")
        await expect(page.get_by_text("No parent matches.")).to_be_visible()
        assert await page.locator("img").count() == 0


CUT = """() => {
  const cut = (each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0;
  const parts = ".bar, .crumbs, .tabs, .facts, .spans, .said, .filter, .figures, .head, main";
  const found = [document.documentElement, document.body, ...document.querySelectorAll(parts)];
  return found.filter(cut).map((each) => each.outerHTML.slice(0, 200));
}"""
"""The parts of a page that are wider than their place: none of them scrolls."""

TOO_FAINT = f"() => {{ {CONTRAST}\n return pale(document.body); }}"
"""The texts of a page whose contrast is too low."""


async def test_equal_reasons_fold_and_a_folder_that_does_not_load_is_no_failure_of_its_parents(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    plain = map_template("plain", x="spec.replicas")
    names = [f"web-{number}" for number in range(6)]
    only(templates, plain=plain)
    async with browsing(operate) as page:
        await desk.apply(*map(echo, names))
        for name in names:
            await desk.ready(ECHOES, name)
        only(templates, plain=plain, broken="a: 1\n{% if spec %}\n")
        await page.goto(f"/ui/?namespace={desk.namespace}")
        await expect(page.locator(".trouble")).to_contain_text("The last good templates go on.")
        for name in names:
            await expect(page.get_by_role("row", name=name)).to_contain_text("Ready")

        only(templates, plain=plain, broken=map_template("broken", x="spec.nothing"))
        fold = page.get_by_role("button", name="6 Echoes")
        await expect(fold).to_have_attribute("aria-expanded", "false")
        await expect(page.get_by_role("row")).to_have_count(2)  # and the heads of the columns
        await expect(page.get_by_role("row", name="6 Echoes")).to_contain_text("spec.nothing")
        await page.keyboard.press("k")
        await page.keyboard.press("Enter")
        await expect(fold).to_have_attribute("aria-expanded", "true")
        await expect(page.get_by_role("row")).to_have_count(8)
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Echo web-0", level=1)).to_be_visible()
