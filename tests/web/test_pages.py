"""The pages of the web view in a real browser, of an operator on a real API server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright, expect

from ssa_operator.operator.http import Server
from ssa_operator.web.routes import WebView
from tests.docs.browser import BROWSER, CONTRAST
from tests.operator.harness import Desk, Operate, echo, map_template, only

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


@contextlib.asynccontextmanager
async def browsing(operate: Operate, **settings: Any) -> AsyncIterator[Page]:
    """A page of a browser beside an operator. What the browser refuses or logs as an error fails the test."""
    problems: list[str] = []
    async with (
        operate(listen=("127.0.0.1", 0)) as running,
        Server(running.operator, "127.0.0.1", 0, WebView(running.operator)) as server,
        async_playwright() as playwright,
    ):
        # No sandbox of its own: the tests may run as root in a container, and load nothing but these pages.
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        base = f"http://127.0.0.1:{server.port}"
        context = await browser.new_context(base_url=base, **{"viewport": {"width": 1440, "height": 900}} | settings)
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: None if request.url.startswith(base) else problems.append(request.url))
        try:
            yield page
        finally:
            await browser.close()
    assert problems == []


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
        await reader.click()
        await page.get_by_role("tab", name="Needs").click()
        await expect(page.get_by_text("reader.yaml.j2:6")).to_be_visible()
        await desk.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blocker"}, "data": {"dsn": "db"}}
        )
        await expect(reader).to_contain_text("Current")
        await page.get_by_role("tab", name="Manifest").click()
        line = page.locator(".code > div", has_text="replicas:")
        await expect(line).to_contain_text("reader.yaml.j2:7")
        await expect(line).to_contain_text("spec.replicas")
        # The same address shows the same to a colleague.
        await page.reload()
        await expect(page.locator(".code > div", has_text="replicas:")).to_contain_text("reader.yaml.j2:7")
        await desk.delete("echo", "web")
        await expect(page.get_by_role("alert")).to_contain_text("there is no")


async def test_all_of_it_works_by_keyboard(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    async with browsing(operate) as page:
        for name in ("one", "two", "three"):
            await desk.apply_until_ready(echo(name))
        await page.goto("/ui/")
        await expect(page.locator("tr.on")).to_contain_text("one")
        await page.keyboard.press("j")
        await expect(page.locator("tr.on")).to_contain_text("three")
        await page.keyboard.press("/")
        await page.keyboard.type("two")
        await expect(page.get_by_role("row")).to_have_count(2)
        await page.keyboard.press("Escape")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Echo two")
        await page.keyboard.press("j")
        await expect(page.get_by_role("treeitem", selected=True)).to_contain_text("two-plain")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await page.keyboard.press("u")
        await expect(page.get_by_role("table")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1000, 1440])
async def test_nothing_is_cut_and_every_text_has_contrast(
    desk: Desk, operate: Operate, templates: Path, width: int, scheme: str
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"), reader=WAITS)
    async with browsing(operate, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        await desk.apply(echo("web-with-a-name-that-is-longer-than-most-names-of-parents-are", 3))
        await page.goto("/ui/")
        await page.get_by_role("link", name="web-with").click()
        await expect(page.get_by_role("treeitem", name="reader")).to_contain_text("Waiting")
        for _ in range(2):
            assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert await page.evaluate(TOO_FAINT) == []
            await page.goto("/ui/")
            await expect(page.locator("main")).to_contain_text("Waiting")


async def test_a_name_or_message_is_text(desk: Desk, operate: Operate, templates: Path) -> None:
    text = "<img src=x onerror=alert(1)>{{ 7*7 }}"
    only(templates, plain=f"a: {{{{ fail({text!r}) }}}}\n")
    async with browsing(operate) as page:
        await desk.apply(echo("web"))
        await page.goto("/ui/")
        await expect(page.get_by_role("row", name="web")).to_contain_text("<img src=x")
        assert await page.locator("img").count() == 0


TOO_FAINT = f"() => {{ {CONTRAST}\n return pale(document.body); }}"
"""The texts of a page whose contrast is too low."""
