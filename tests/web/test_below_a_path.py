"""The web view below a path of a reverse proxy that cuts this path, and changes nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import expect
from yarl import URL

from tests.docs.browser import BROWSER
from tests.operator.harness import ECHOES, Desk, Operate, echo, map_template, only
from tests.operator.test_http import new_account
from tests.web.test_login import OWN, PATHS, RULES, browser_page, exposed

pytestmark = pytest.mark.cluster

BELOW = "/tools/ui/ssa"
"""The path has a part that the operator's own paths have, too."""


@contextlib.asynccontextmanager
async def proxied(base: str, below: str = BELOW) -> AsyncIterator[str]:
    """The address of a proxy that serves an operator below a path, as `proxy_pass http://operator:8080/;` of nginx."""

    async def forward(request: web.Request) -> web.StreamResponse:
        address = base + request.raw_path.removeprefix(below)
        sent: Any = {"headers": request.headers, "data": await request.read() or None}
        async with session.request(request.method, address, allow_redirects=False, **sent) as got:
            answer = web.StreamResponse(status=got.status, headers=got.headers)
            answer.headers.popall("Transfer-Encoding", None)
            await answer.prepare(request)
            async for chunk in got.content.iter_any():
                await answer.write(chunk)
            return answer

    app = web.Application()
    app.router.add_route("*", below + "/{rest:.*}", forward)
    jar = aiohttp.DummyCookieJar()
    async with (
        aiohttp.ClientSession(cookie_jar=jar, auto_decompress=False) as session,
        TestServer(app, host="127.0.0.1") as server,
    ):
        yield f"http://127.0.0.1:{server.port}"


async def test_no_answer_leads_out_of_the_path(desk: Desk, operate: Operate) -> None:
    token = await new_account(desk, "viewer", PATHS, RULES)
    browses = {"Accept": "text/html", "Sec-Fetch-Site": "none"}
    async with exposed(operate) as base, proxied(base) as address, aiohttp.ClientSession(address) as session:
        for path in ("/ui", "/ui/", f"/ui/parents/{ECHOES}/one/web"):
            async with session.get(BELOW + path, headers=browses) as answer:
                assert answer.url.path == f"{BELOW}/ui/login"
        sent = {"token": token, "to": f"/ui/parents/{ECHOES}/one/web?tab=events"}
        page = f"{address}{BELOW}/ui/login"
        async with session.post(
            page, data=sent, headers={**OWN, "Referer": f"{page}?to=x"}, allow_redirects=False
        ) as answer:
            assert answer.status == 303
            assert str(answer.url.join(URL(answer.headers["Location"]))) == f"{address}{BELOW}{sent['to']}"
            assert f"; Path={BELOW}/;" in answer.headers["Set-Cookie"]
        # What follows from a name that the proxy doesn't write is for the host, as without a proxy.
        for referer in ("", "https://x/y;Domain=z/ui/login", f"{page}/other"):
            headers = {**OWN, "Referer": referer}
            async with session.post(page, data=sent, headers=headers, allow_redirects=False) as answer:
                assert "; Path=/;" in answer.headers["Set-Cookie"]
        headers = {"Authorization": f"Bearer {token}"}
        async with session.get(f"{BELOW}/ui", headers=headers) as answer:
            assert answer.url.path == f"{BELOW}/ui/"


async def test_of_two_cookies_that_of_the_longest_path_counts(desk: Desk, operate: Operate) -> None:
    token = await new_account(desk, "viewer", PATHS, RULES)
    async with exposed(operate) as base, aiohttp.ClientSession(base) as session:
        name = "ssa-operator-token"
        for sent, status in ((f"{name}={token}; {name}=old", 200), (f"{name}=old; {name}={token}", 401)):
            assert (await session.get("/api/v1/overview", headers={**OWN, "Cookie": sent})).status == status


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
async def test_a_reader_below_a_path_logs_in_follows_links_and_logs_out(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    token = await new_account(desk, "viewer", PATHS, [])
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    rules = [{"nonResourceURLs": PATHS, "verbs": ["get"]}, *RULES]
    await desk.apply({**role, "metadata": {"name": f"{desk.namespace}-viewer"}, "rules": rules})
    async with exposed(operate) as base, proxied(base) as address, browser_page(address) as page:
        asked: list[str] = []
        failed: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda got: failed.append(got.url) if got.status == 404 else None)
        await desk.apply_until_ready(echo("web"))
        parent = f"{BELOW}/ui/parents/{ECHOES}/{desk.namespace}/web"
        await page.goto(parent)
        await page.get_by_label("Bearer token").fill(token)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Echo web", level=1)).to_be_visible()
        assert page.url == address + parent
        [cookie] = await page.context.cookies()
        assert cookie["path"] == f"{BELOW}/"
        await page.get_by_role("link", name="Overview").click()
        await expect(page.get_by_role("row", name="web")).to_be_visible()
        assert page.url == f"{address}{BELOW}/ui/"
        await page.get_by_role("link", name=f"Templates of {ECHOES}").click()
        await expect(page.locator("main")).to_contain_text("plain.yaml.j2")
        await page.reload()
        await expect(page.locator("main")).to_contain_text("plain.yaml.j2")
        await page.get_by_role("button", name="sign out").click()
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert await page.context.cookies() == []
        assert failed == []
        assert {url for url in asked if not url.startswith(address + BELOW)} == set()
