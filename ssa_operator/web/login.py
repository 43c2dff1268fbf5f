"""The login page of an operator that other hosts reach, and the cookie that keeps the token in the browser.

Promises:
- A reader types a token once. The browser keeps it in a cookie that no script can read (HttpOnly), that no page of
  another site sends (SameSite=Strict), and that is sent encrypted alone if the operator has a certificate (Secure). The
  operator keeps no token, and no answer, address or log line has one.
- The cookie counts for the paths of the web view alone, and only for requests of the view's own pages.
- The API server reviews the token of a cookie as one in a header, so a session ends when the token expires or its
  account loses the permission.
- Login and logout set the cookie and change nothing else. A form of another origin is refused. After the login the
  browser goes to a page of the view, never elsewhere.
- Addresses are relative, and the cookie is for the path of the operator in the browser, so a proxy may serve the view
  below a path of its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from html import escape
from urllib.parse import parse_qs, quote, unquote

from aiohttp import web

from ssa_operator.operator.http import AccessControl

PAGE, LOGOUT = "/ui/login", "/ui/logout"

OPEN_PATHS = frozenset({PAGE, LOGOUT, "/ui/assets/style.css", "/ui/assets/icon.svg"})
"""What a browser without a token may read: nothing of it is about the cluster."""

COOKIE = "ssa-operator-token"

MAX_FORM = 16_384
"""Bytes. A browser keeps no cookie that is longer than 4096."""

MAX_TOKEN = 3_900

FORM_TIMEOUT = 10.0
"""Seconds for the body of a form."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""The page has no script at all."""


def token_of(request: web.Request) -> str:
    """The token in a request's cookie, '' for none and for a request that another origin's page makes."""
    if not request.path.startswith(("/ui/", "/api/v1/")) or not _is_own(request):
        return ""
    names = ("__Host-", "__Secure-") if request.secure else ("",)
    pairs = (each.strip().partition("=") for each in request.headers.get("Cookie", "").split(";"))
    # Of the same name, the browser sends that of the longest path first.
    return next((value for name, _, value in pairs if name in {f"{each}{COOKIE}" for each in names}), "")


def root_of(request: web.Request) -> str:
    """The relative address of `/ui/` in a page of the view."""
    depth = request.rel_url.raw_path.count("/") - 2
    return ("../" * depth or "./") if depth >= 0 else "ui/"


def refused(request: web.Request, error: web.HTTPUnauthorized) -> web.StreamResponse:
    """What a request without a valid token gets: a browser that opens a page of the view gets the login page."""
    if not request.path.startswith("/ui") or "text/html" not in request.headers.get("Accept", ""):
        raise error
    if not _is_own(request):
        # The reader followed a link of another site, so the browser sends no cookie. From this page it does.
        again = escape("./" + request.path_qs[request.path_qs.partition("?")[0].rindex("/") + 1 :])
        text = f'<!doctype html><meta http-equiv="refresh" content="0;url={again}"><title>ssa-operator</title>'
        return web.Response(status=401, text=text, content_type="text/html", headers=_HEADERS)
    raise web.HTTPSeeOther(f"{root_of(request)}login?to={quote(request.path_qs, safe='')}")


class Login:
    """The login page. `text` is its HTML, with the places of _fill."""

    def __init__(self, text: str, access: AccessControl) -> None:
        self._text = text
        self._access = access

    async def page(self, request: web.Request) -> web.StreamResponse:
        """The form."""
        return self._page(request, _within(request.query.get("to", "")))

    async def login(self, request: web.Request) -> web.StreamResponse:
        """Check the token of the form, and keep it in the browser."""
        if not _is_own(request):
            raise web.HTTPForbidden(text="only the login page of this operator may send this form\n")
        form = await _form(request)
        token, to = form.get("token", "").strip(), _within(form.get("to", ""))
        if not _TOKEN.fullmatch(token):
            return self._page(request, to, "That is no bearer token.", 400)
        if len(token) > MAX_TOKEN:
            return self._page(request, to, "The token is longer than a browser keeps.", 400)
        try:
            account = await self._access.account_of(token)
            if account is None:
                return self._page(request, to, "The API server does not know this token, or it has expired.", 401)
            if not await self._access.may_get(account, "/ui/"):
                return self._page(request, to, f"{account.user} may not get the nonResourceURL /ui/.", 403)
        except web.HTTPServiceUnavailable as error:
            return self._page(request, to, f"Try again in a moment: {(error.text or '').strip()}.", 503)
        answer = web.HTTPSeeOther(f"./{to.removeprefix('/ui/')}", headers={"Cache-Control": "no-store"})
        _set_cookie(request, answer, token)
        raise answer

    async def logout(self, request: web.Request) -> web.StreamResponse:
        """Have the browser forget the token."""
        if not _is_own(request):
            raise web.HTTPForbidden(text="only the pages of this operator may log out\n")
        answer = web.Response(status=204, headers=_HEADERS)
        _set_cookie(request, answer, "", max_age=0)
        return answer

    def _page(self, request: web.Request, to: str, problem: str = "", status: int = 200) -> web.Response:
        insecure = "" if request.secure else "This connection is not encrypted: who can listen to it reads the token."
        text = _fill(self._text, {"to": to, "problem": problem, "insecure": insecure})
        return web.Response(status=status, text=text, content_type="text/html", charset="utf-8", headers=_HEADERS)


_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer` a browser would send `Origin: null` with the form.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def _fill(text: str, values: Mapping[str, str]) -> str:
    """The page with escaped values in its places, such as `{{to}}`."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: escape(values[place[1]]), text)


def _set_cookie(request: web.Request, answer: web.StreamResponse, token: str, max_age: int | None = None) -> None:
    """Set the cookie for the path of the operator in the browser: that of the page that sends the request, without the
    end that the operator knows. Under TLS the browser checks by the prefix who set it.
    """
    page = request.headers.get("Referer", "").partition("?")[0]
    found = _PAGE_ADDRESS.fullmatch(page.removesuffix(request.path)) if page.endswith(request.path) else None
    path = f"{found[1]}/" if found is not None else "/"
    prefix = "" if not request.secure else "__Host-" if path == "/" else "__Secure-"
    secure = request.secure or None
    answer.set_cookie(
        f"{prefix}{COOKIE}", token, path=path, max_age=max_age, httponly=True, samesite="Strict", secure=secure
    )


_PAGE_ADDRESS = re.compile(r"https?://[^/]+((?:/[A-Za-z0-9._~:@%+-]+)*)")


def _is_own(request: web.Request) -> bool:
    """Whether a page of this operator, or the reader, makes the request. An old browser sends no Sec-Fetch-Site."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("Origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("Host")


def _within(address: str) -> str:
    """The address of a page of the view, `/ui/` for every other one."""
    inside = address.startswith("/ui/") and address.isprintable() and "\\" not in address
    inside = inside and ".." not in unquote(address.partition("?")[0])
    return address if inside and not address.startswith((PAGE, LOGOUT)) else "/ui/"


async def _form(request: web.Request) -> Mapping[str, str]:
    if request.content_type != "application/x-www-form-urlencoded":
        raise web.HTTPUnsupportedMediaType(text="send the form of the login page\n")
    if (request.content_length or 0) > MAX_FORM:
        raise web.HTTPRequestEntityTooLarge(max_size=MAX_FORM, actual_size=request.content_length or 0)
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_TIMEOUT):
            while len(body) <= MAX_FORM and (part := await request.content.read(MAX_FORM)):
                body += part
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(text="the form did not arrive in time\n") from error
    if len(body) > MAX_FORM:
        raise web.HTTPRequestEntityTooLarge(max_size=MAX_FORM, actual_size=len(body))
    fields = parse_qs(body.decode("ascii", "replace"), max_num_fields=8)
    return {name: values[0] for name, values in fields.items()}
