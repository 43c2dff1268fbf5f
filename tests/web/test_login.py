"""The login page of an operator that other hosts reach, decided by the real API server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from playwright.async_api import Page, async_playwright, expect
from yarl import URL

from ssa_operator.operator import http
from ssa_operator.operator.http import Server
from ssa_operator.web import event_stream
from ssa_operator.web.login import COOKIE
from ssa_operator.web.routes import WebView
from tests.docs.browser import BROWSER
from tests.operator.harness import ECHOES, Desk, Operate, echo, map_template, only
from tests.operator.limited_accounts import Rules
from tests.operator.test_http import EVERYWHERE, new_account, new_pair, write
from tests.web.test_pages import PATIENCE

pytestmark = pytest.mark.cluster

RULES: Rules = [{"apiGroups": ["example.com"], "resources": ["echoes"], "verbs": ["get", "list"]}]
PATHS = ["/ui/*"]
BROWSES = {"Accept": "text/html", "Sec-Fetch-Site": "none"}
OWN = {"Sec-Fetch-Site": "same-origin"}


@contextlib.asynccontextmanager
async def exposed(operate: Operate, **options: object) -> AsyncIterator[str]:
    """The address of a view that other hosts reach."""
    async with (
        operate(listen=(EVERYWHERE, 0), **options) as running,
        Server(running.operator, EVERYWHERE, 0, WebView(running.operator)) as server,
    ):
        yield f"{'https' if options else 'http'}://127.0.0.1:{server.port}"


def browser_session(base: str, **options: Any) -> aiohttp.ClientSession:
    """Keeps cookies as a browser does."""
    return aiohttp.ClientSession(base, cookie_jar=aiohttp.CookieJar(unsafe=True), **options)


async def test_a_token_is_typed_once_and_kept_where_no_script_reads_it(desk: Desk, operate: Operate) -> None:
    token = await new_account(desk, "viewer", PATHS, RULES)
    stranger = await new_account(desk, "stranger", [], [])
    async with exposed(operate) as base, browser_session(base) as session:
        # A browser is led to the form, and back to its page after it.
        page = f"/ui/parents/{ECHOES}/one/web?child=a"
        async with session.get(page, headers=BROWSES, allow_redirects=False) as answer:
            assert answer.status == 303
            to_login = answer.url.join(URL(answer.headers["Location"])).relative()
        async with session.get(to_login) as answer:
            text = await answer.text()
            assert 'value="/ui/parents/echoes.example.com/one/web?child=a"' in text
            assert "not encrypted" in text
            assert "script" not in answer.headers["Content-Security-Policy"]
        # Everything else gets 401 as before.
        assert (await session.get("/ui/")).status == 401
        assert (await session.get("/api/v1/overview", headers=BROWSES)).status == 401

        async def send(token: str, to: str = page, **headers: str) -> aiohttp.ClientResponse:
            form = {"token": token, "to": to}
            return await session.post("/ui/login", data=form, headers=headers or OWN, allow_redirects=False)

        for wrong, status, words in (
            ("no token", 400, "no bearer token"),
            ("unknown", 401, "does not know this token"),
            ("x" * 5000, 400, "longer than a browser keeps"),
            (stranger, 403, "stranger may not get the nonResourceURL /ui/"),
        ):
            answer = await send(wrong)
            assert answer.status == status
            text = await answer.text()
            assert words in text
            assert wrong not in text.replace("no token of", "")
            assert "Set-Cookie" not in answer.headers
            # Kubernetes lets every account get /api/*, and these are the pages' own data.
            if wrong == stranger:
                headers = {"Authorization": f"Bearer {stranger}"}
                for path in ("/api/v1/overview", "/api/v1/reader", f"/api/v1/folders/{ECHOES}"):
                    refused = await session.get(path, headers=headers)
                    assert (refused.status, words in await refused.text()) == (403, True), path
        # A form of another site signs nobody in.
        assert (await send(token, **{"Sec-Fetch-Site": "cross-site"})).status == 403
        assert (await send(token, Origin="http://elsewhere.example")).status == 403
        assert (await send(token, Origin=base)).status == 303
        # The browser never goes elsewhere.
        for to in (
            "https://elsewhere.example",
            "//elsewhere.example",
            "/ui/\\elsewhere",
            "/ui/login?to=x",
            "/ui/../objects",
            "/ui/%2e%2e/objects",
            "/ui/\r\nx",
        ):
            assert (await send(token, to)).headers["Location"] == "./"
        answer = await send(token)
        assert answer.headers["Location"] == f".{page.removeprefix('/ui')}"
        cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith(f"{COOKIE}=")
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        assert "Max-Age" not in cookie

        # The jar has the cookie now: it counts for the view's own requests, and for its paths alone.
        assert (await session.get("/api/v1/overview", headers=OWN)).status == 200
        assert (await session.get("/ui/", headers=BROWSES)).status == 200
        reader = await (await session.get("/api/v1/reader")).json()
        assert reader["user"] == f"system:serviceaccount:{desk.namespace}:viewer"
        assert reader["cluster"]
        assert (await session.get("/objects", headers=OWN)).status == 401
        assert (await session.get("/api/v1/overview", headers={"Sec-Fetch-Site": "same-site"})).status == 401
        assert (await session.get("/api/v1/overview", headers={"Origin": "http://elsewhere.example"})).status == 401
        # A link in a mail comes from another site: the page loads itself again, as one of its own.
        answer = await session.get("/ui/?text=a%22b", headers={**BROWSES, "Sec-Fetch-Site": "cross-site"})
        assert 'content="0;url=./?text=a%22b"' in await answer.text()
        # A header counts before the cookie.
        assert (await session.get("/api/v1/overview", headers={"Authorization": "Bearer no"})).status == 401

        assert (await session.post("/ui/logout", headers={"Sec-Fetch-Site": "cross-site"})).status == 403
        assert (await session.post("/ui/logout", headers=OWN)).status == 204
        assert (await session.get("/api/v1/overview", headers=OWN)).status == 401
        assert (await session.post("/ui/login", data=b"x" * 20_000, headers=OWN)).status == 415
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await session.post("/ui/login", data=b"x" * 20_000, headers=form)).status == 413


async def test_with_a_certificate_the_cookie_is_sent_encrypted_alone(
    desk: Desk, operate: Operate, tmp_path: Path
) -> None:
    files = write(new_pair(), tmp_path)
    token = await new_account(desk, "viewer", PATHS, RULES)
    async with (
        exposed(operate, certificate=files) as base,
        aiohttp.ClientSession(base, connector=aiohttp.TCPConnector(ssl=False)) as session,
    ):
        answer = await session.post("/ui/login", data={"token": token}, headers=OWN, allow_redirects=False)
        cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith(f"__Host-{COOKIE}=")
        assert "; Secure" in cookie
        assert "not encrypted" not in await (await session.get("/ui/login")).text()


async def test_a_reader_with_too_many_pages_is_told(operate: Operate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_READER_STREAMS", 1)
    async with (
        operate(listen=("127.0.0.1", 0)) as running,
        Server(running.operator, "127.0.0.1", 0, WebView(running.operator)) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
        session.get("/api/v1/overview?stream=1") as first,
    ):
        assert first.status == 200
        async with session.get("/api/v1/overview?stream=1") as second:
            assert second.status == 429
            assert "close some of them" in await second.text()
        # Its other requests are answered.
        assert (await session.get("/api/v1/overview")).status == 200


@contextlib.asynccontextmanager
async def browser_page(base: str) -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = await browser.new_page(base_url=base)
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        yield page
        await browser.close()


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
async def test_a_session_ends_with_the_permission_of_its_token(
    desk: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "ANSWER_LIFETIME", 0.0)
    monkeypatch.setattr(event_stream, "REVIEW_AFTER", 0.0)
    only(templates, plain=map_template("plain", x="spec.replicas"))
    token = await new_account(desk, "viewer", PATHS, RULES)
    cluster_rules = {"apiGroups": ["example.com"], "resources": ["echoes"], "verbs": ["get", "list"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    name = f"{desk.namespace}-viewer"
    paths = {"nonResourceURLs": PATHS, "verbs": ["get"]}
    await desk.apply({**role, "metadata": {"name": name}, "rules": [paths, cluster_rules]})
    async with exposed(operate) as base, browser_page(base) as page:
        await desk.apply_until_ready(echo("web"))
        await page.goto(f"/ui/?namespace={desk.namespace}")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await page.get_by_label("Bearer token").fill("wrong")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_contain_text("does not know this token")
        await page.get_by_label("Bearer token").fill(token)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("row", name="web")).to_be_visible()
        assert page.url.endswith(f"/ui/?namespace={desk.namespace}")
        assert await page.evaluate("document.cookie") == ""
        await expect(page.get_by_role("button", name="sign out")).to_have_attribute("title", f"You are {user(desk)}")

        # Without the folder's permission its parents go; without that of the path the page says so.
        await desk.apply({**role, "metadata": {"name": name}, "rules": [paths]})
        await desk.apply(echo("other"))
        await page.reload()
        await expect(page.get_by_text("There are no parents yet")).to_be_visible()
        await desk.apply({**role, "metadata": {"name": name}, "rules": [cluster_rules]})
        await page.reload()
        await expect(page.locator("body")).to_contain_text("may not get the nonResourceURL /ui/")

        await desk.apply({**role, "metadata": {"name": name}, "rules": [paths, cluster_rules]})
        await page.goto("/ui/")
        await expect(page.get_by_role("row", name="web")).to_be_visible()
        # The token of an account that is gone is unknown: an open page goes to the login.
        await desk.delete("serviceaccount", "viewer")
        await desk.apply(echo("third"))
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def user(desk: Desk) -> str:
    return f"system:serviceaccount:{desk.namespace}:viewer"
