"""The overview of ten thousand parents in a browser, of an operator on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.async_api import expect

from ssa_operator.operator.http import Server
from ssa_operator.web.routes import WebView
from tests.docs.browser import BROWSER
from tests.operator.harness import ECHOES, PATIENCE, Desk, Operate, echo, only
from tests.web.test_pages import browser_page

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.cluster,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome"),
]

PARENTS = 10_000
WAITING = 200
AT_ONCE = 100

WAITS = """\
{% if spec.replicas == 2 %}
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}"}
data: {url: "{{ lookup('v1', 'ConfigMap', 'missing').data.url }}"}
{% endif %}
"""


async def test_a_reader_finds_one_of_ten_thousand_parents(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, map=WAITS)
    names = [f"web-{number:05}" for number in range(PARENTS)]
    for begin in range(0, PARENTS, AT_ONCE):
        chosen = range(begin, begin + AT_ONCE)
        # A step of 50 spreads those that wait over all.
        await asyncio.gather(*(desk.apply(echo(names[at], replicas=1 + (at % 50 == 0))) for at in chosen))
    async with (
        operate(listen=("127.0.0.1", 0)) as running,
        Server(running.operator, "127.0.0.1", 0, WebView(running.operator)) as server,
    ):
        await _reported(desk, names)
        async with browser_page(server.port) as page:
            await page.goto("/ui/")
            # What needs a change comes first, in pages.
            await expect(page.get_by_role("row", name="web-00000")).to_contain_text("waiting for ConfigMap missing")
            shown = page.locator("main")
            await expect(shown).to_contain_text("10\u2009000")
            assert await page.evaluate("document.querySelectorAll('*').length") < 2000
            await page.get_by_role("button", name="not ready").or_(page.get_by_role("link", name="not ready")).click()
            await expect(shown).to_contain_text(f"{WAITING} of 10\u2009000")
            await page.goto("/ui/?offset=9990")
            await expect(page.get_by_role("row", name="web-09999")).to_contain_text("Ready")
            await page.keyboard.press("/")
            await page.keyboard.type("web-04711")
            await expect(page.get_by_role("row")).to_have_count(2)
            await expect(page.get_by_role("row", name="web-04711")).to_be_visible()
            # Its address finds the same.
            await page.goto(page.url)
            await expect(page.get_by_role("row")).to_have_count(2)
            await page.goto(f"/ui/?namespace={desk.namespace}&group=ready")
            await expect(page.get_by_role("row", name="web-00001")).to_be_visible()


async def _reported(desk: Desk, names: Sequence[str]) -> None:
    """Return once each parent has a status, in whatever order the operator comes to them. Raises TimeoutError if no
    parent changes for PATIENCE.
    """
    view = await desk.view(ECHOES)
    for name in names:
        while (live := view.cache.get(desk.namespace, name)) is None or "status" not in live.body:
            async with asyncio.timeout(PATIENCE):
                await view.change(view.changes)
