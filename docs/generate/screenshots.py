"""Takes the pictures of the web view from a session of `ssa-operator dev` on a local control plane, in Chromium.

Promises:
- A picture shows what the browser shows of a real operator: nothing is drawn or edited.
- A picture has no more than LARGEST bytes, and names no address of the machine.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from playwright.async_api import Page, async_playwright, expect

from docs.generate.transcripts import ROOT
from tests.cli.terminal import terminal
from tests.docs.browser import BROWSER

FOLDER = ROOT / "docs"

LARGEST = 200_000

_WIDTH, _HEIGHT = 1280, 760

_EXAMPLES = """\
apiVersion: example.com/v1
kind: Echo
metadata: {name: hello, namespace: default}
spec: {replicas: 2}
---
apiVersion: melenion.com/v1
kind: NeonDatabase
metadata: {name: neon, namespace: default}
spec:
  postgres_version: 17
  compute_image_ref: ghcr.io/neondatabase/compute-node-v17:release-compute-9073
  neon_image_ref: ghcr.io/neondatabase/neon:release-9129
  roles:
  - name: app
    secretRef: {name: app-password}
"""
"""One parent that is ready, and one with a child that waits for a Secret that is not there."""

_DATABASE = "/ui/parents/neondatabases.melenion.com/default/neon"
_PATIENCE = 120_000


async def _parent(page: Page) -> None:
    await page.goto(_DATABASE)
    # Only what waits for the Secret is left.
    await expect(page.locator(".facts")).to_contain_text("23 of 26 children ready")
    reason = page.locator(".reason", has_text="app-password").first
    await expect(reason).to_be_visible()
    await page.locator(".row b", has_text="neon-role-app").first.click()
    await page.get_by_role("tab", name="Needs").click()
    await expect(page.locator(".edges")).to_contain_text("app-password")


SHOTS: Mapping[str, tuple[str, Callable[[Page], Awaitable[None]]]] = {
    "web-parent.png": ("dark", _parent),
}
"""The pictures in docs/, each with its colours and with what leads to it."""


async def taken() -> Mapping[str, bytes]:
    """All pictures, by file name. Raises ValueError for one that is too large."""
    assert BROWSER is not None, "the pictures of the web view need Chromium: .ci/browser installs it"
    port = _free_port()
    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as state:
        examples = Path(state) / "examples.yaml"
        examples.write_text(_EXAMPLES, encoding="utf-8")
        arguments = ("dev", f"--examples={examples}", f"--listen=127.0.0.1:{port}")
        async with terminal(*arguments, columns=120, lines=60, SSA_OPERATOR_STATE_DIR=state) as shown:
            await shown.shows("Echo default/hello Ready")
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
                for name, (scheme, lead) in SHOTS.items():
                    context = await browser.new_context(
                        base_url=f"http://127.0.0.1:{port}",
                        viewport={"width": _WIDTH, "height": _HEIGHT},
                        color_scheme="dark" if scheme == "dark" else "light",
                        reduced_motion="reduce",
                    )
                    page = await context.new_page()
                    page.set_default_timeout(_PATIENCE)
                    expect.set_options(timeout=_PATIENCE)
                    await lead(page)
                    await expect(page.locator(".flash")).to_have_count(0)
                    found[name] = await page.screenshot()
                    await context.close()
                await browser.close()
            shown.press("q")
            await shown.ended()
    for name, picture in found.items():
        if len(picture) > LARGEST:
            raise ValueError(f"{name} has {len(picture)} bytes, more than {LARGEST}")
    return found


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def write(pictures: Mapping[str, bytes], folder: Path = FOLDER) -> None:
    """Write the pictures into the docs."""
    for name, picture in pictures.items():
        (folder / name).write_bytes(picture)
