"""axe finds nothing on any page: names and roles for screen readers, contrast, and all that it knows of."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.docs.browser import BROWSER
from tests.operator.harness import ECHOES, Desk, Operate, echo, map_template, only
from tests.packaging.checkout import ROOT
from tests.web.test_pages import WAITS, browsing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm"),
]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, which is a part of the tests alone."""
    installed = ROOT / "ssa_operator" / "web" / "page" / "node_modules" / "axe-core" / "axe.min.js"
    if not installed.exists():
        folder = tmp_path_factory.mktemp("web")
        for name in ("package.json", "package-lock.json"):
            shutil.copy(ROOT / "ssa_operator" / "web" / "page" / name, folder)
        done = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        installed = folder / "node_modules" / "axe-core" / "axe.min.js"
    return installed.read_text(encoding="utf-8")


async def findings(page: Page, axe: str) -> list[str]:
    """What axe finds on a page as it is."""
    found = await page.evaluate(f"{axe};axe.run(document).then((result) => JSON.stringify(result.violations))")
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in json.loads(found)
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_axe_finds_nothing(
    desk: Desk, operate: Operate, templates: Path, axe: str, width: int, scheme: str
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"), reader=WAITS)
    async with browsing(
        operate,
        expected=("of 404",),
        viewport={"width": width, "height": 800},
        color_scheme=scheme,
        reduced_motion="reduce",
    ) as page:
        await desk.apply(echo("web", 3))
        await page.goto("/ui/")
        await expect(page.locator("main")).to_contain_text("Waiting")
        pages = {"the overview": await findings(page, axe)}
        await page.get_by_role("link", name="web").click()
        await expect(page.get_by_role("treeitem", name="web-reader")).to_contain_text("Waiting")
        pages["a parent"] = await findings(page, axe)
        await page.get_by_role("treeitem", name="web-plain").click()
        await expect(page.locator(".code > div", has_text="apiVersion").first).to_be_visible()
        pages["a child"] = await findings(page, axe)
        parent, child = page.url.split("?")[0], page.url
        for address in (
            *(f"{parent}?tab={tab}" for tab in ("history", "change")),
            *(f"{child}&tab={tab}" for tab in ("change", "conditions", "needs", "needed", "history")),
        ):
            await page.goto(address)
            await expect(page.locator("main")).to_contain_text("web")
            pages[address] = await findings(page, axe)
        if width > 760:
            await page.keyboard.press("?")
            await expect(page.get_by_role("dialog")).to_be_visible()
            pages["the keys"] = await findings(page, axe)
        await page.goto(f"/ui/folders/{ECHOES}")
        await expect(page.get_by_text("Loads")).to_be_visible()
        pages["a folder's files"] = await findings(page, axe)
        await page.goto(f"/ui/folders/{ECHOES}?file={ECHOES}/plain.yaml.j2&parent={desk.namespace}/web")
        await expect(page.locator(".rendered .code").first).to_be_visible()
        pages["what a file renders"] = await findings(page, axe)
        await page.get_by_role("tab", name="Graph").click()
        await expect(page.locator("svg .node").first).to_be_visible()
        pages["a folder's graph"] = await findings(page, axe)
        (templates / ECHOES / "plain.yaml.j2").write_text("{% if %}\n")
        await expect(page.get_by_text("Does not load")).to_be_visible()
        await page.get_by_role("tab", name="Files").click()
        pages["a folder that does not load"] = await findings(page, axe)
        await page.get_by_role("tab", name="Changes").click()
        await expect(page.locator(".added").first).to_be_visible()
        pages["the changes of a folder"] = await findings(page, axe)
        await page.goto(f"{parent}-no?tab=change")
        await expect(page.get_by_role("alert")).to_contain_text("there is no")
        pages["a parent that does not exist"] = await findings(page, axe)
        await page.goto("/ui/login")
        pages["the login"] = await findings(page, axe)
        assert {name: found for name, found in pages.items() if found} == {}
