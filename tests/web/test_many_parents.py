"""The overview of ten thousand parents in a browser."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from playwright.async_api import async_playwright, expect

from benchmarks.web import FOLDER, page_routes, rows_of, serving
from ssa_operator.web.event_stream import EventStreams, paced
from ssa_operator.web.figures import FigureSamples
from ssa_operator.web.overview import make_overview
from ssa_operator.web.routes import _page_of
from tests.docs.browser import BROWSER
from tests.web.test_pages import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")]


async def test_a_reader_finds_one_of_ten_thousand_parents() -> None:
    operator, rows = rows_of(10_000)
    figures, streams = FigureSamples().figures(), EventStreams()

    async def overview(request: web.Request) -> web.StreamResponse:
        wanted, offset, limit = _page_of(request)

        def value() -> dict[str, Any]:
            found = make_overview(operator, rows, figures, wanted, {FOLDER}, offset=offset, limit=limit)
            return cast("dict[str, Any]", msgspec.to_builtins(found))

        return await streams.send(request, paced(value, lambda: 0), _allowed, "reader")

    routes = [web.get("/api/v1/overview", overview), *page_routes({"reader": {"user": "", "cluster": "in-cluster"}})]
    async with serving(*routes) as base, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = await browser.new_page(base_url=base)
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        await page.goto("/ui/")
        # What needs a change comes first, in pages.
        first = page.get_by_role("row", name="web-00000")
        await expect(first).to_contain_text("1 of 2 are ready")
        shown = page.locator("main")
        await expect(shown).to_contain_text("10\u2009000")
        assert await page.evaluate("document.querySelectorAll('*').length") < 2000
        await page.get_by_role("button", name="not ready").or_(page.get_by_role("link", name="not ready")).click()
        await expect(shown).to_contain_text("200")
        await page.goto("/ui/?offset=9990")
        await expect(page.get_by_role("row", name="web-09969")).to_contain_text("Ready")
        await page.keyboard.press("/")
        await page.keyboard.type("web-04711")
        await expect(page.get_by_role("row")).to_have_count(2)
        await expect(page.get_by_role("row", name="web-04711")).to_be_visible()
        # Its address finds the same.
        await page.goto(page.url)
        await expect(page.get_by_role("row")).to_have_count(2)
        await page.goto("/ui/?namespace=team-7&group=ready")
        await expect(page.get_by_role("row", name="web-00007")).to_be_visible()
        await browser.close()


async def _allowed() -> None:
    pass
