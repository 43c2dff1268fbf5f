"""*Copy as command*: each command that a page copies prints what the page shows."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.docs.browser import BROWSER
from tests.operator.harness import ECHOES, ROOT, Desk, Operate, echo, map_template, only
from tests.secret_contents import OUTPUTS
from tests.web.test_pages import WAITS, browsing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome"),
]


async def test_each_view_copies_a_command_that_prints_what_it_shows(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"), reader=WAITS)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", ""),
        "KUBECONFIG": str(desk.kubeconfig),
        "SSA_OPERATOR_TEMPLATES": str(templates),
        "SSA_OPERATOR_CRDS": str(ROOT / "crds"),
    }

    async def copied(page: Page, command: str, *, within: str = "main", status: int = 0) -> str:
        """What the command of a page prints; it begins with `command`."""
        button = page.locator(within).get_by_role("button", name="copy as command").first
        await expect(button).to_have_attribute("title", re.compile(re.escape(command)))
        text = str(await button.get_attribute("title"))
        process = await asyncio.create_subprocess_shell(
            text, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        assert process.returncode == status, f"{text}: {err.decode()}"
        OUTPUTS.add(text, out.decode())
        return out.decode()

    async with browsing(operate) as page:
        blocker = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "blocker"}, "data": {"other": "x"}}
        await desk.apply(echo("web", 3), echo("other"), blocker)
        labels = {**echo("paused"), "metadata": {"name": "paused", "labels": {"tier": "db"}}}
        await desk.apply(labels)
        await page.goto("/ui/")
        await expect(page.get_by_role("row", name="web")).to_contain_text("Waiting")
        mine = f"namespace={desk.namespace}"

        # The overview, with each of its filters.
        for query, options, shown in (
            ("", "", {"web", "other", "paused"}),
            ("&text=dsn web", "--text", {"web"}),
            ("&group=unready", "--only unready", {"web", "other", "paused"}),
            ("&group=failed", "--only failed", set[str]()),
            ("&conflict=1", "--only conflict", set[str]()),
            ("&suspended=1&text=web", "--text web --only suspended", set[str]()),
            (f"&labels=tier%3Ddb&folder={ECHOES}", "-l tier=db", {"paused"}),
        ):
            await page.goto(f"/ui/?{mine}{query}")
            rows = page.locator("tbody .name b")
            await expect(rows).to_have_count(len(shown))
            assert set(await rows.all_inner_texts()) == shown
            out = await copied(page, "ssa-operator status")
            assert options in str(await page.get_by_role("button", name="copy as command").get_attribute("title"))
            lines = [line for line in out.splitlines() if line.startswith("Echo ")]
            assert {line.split()[1].rpartition("/")[2] for line in lines} == shown

        # A parent and its parts.
        parent = f"/ui/parents/{ECHOES}/{desk.namespace}/web"
        side = ".side"
        await page.goto(parent)
        out = await copied(page, "ssa-operator tree echo/web", within=".head")
        assert "web-reader" in out
        assert "WaitingForDependency" in await copied(page, "ssa-operator status echo/web -o yaml", within=side)
        await page.goto(f"{parent}?tab=events")
        await expect(page.locator(".events")).to_contain_text("Created")
        assert "Created" in await copied(page, "kubectl events --for Echo.example.com/web", within=side)
        await page.goto(f"{parent}?tab=history")
        assert '"reconcile"' in await copied(page, "curl -s http", within=side)
        await page.goto(f"{parent}?tab=change")
        await expect(page.get_by_role("tabpanel")).to_contain_text("1 object would stay as it is.")
        assert "web-reader" in await copied(page, "ssa-operator diff echo/web", within=side, status=1)

        # A child, an object that it looks up.
        plain = f"{parent}?child=/ConfigMap/{desk.namespace}/web-plain"
        await page.goto(plain)
        await expect(page.locator(".code")).to_contain_text("plain.yaml.j2:6")
        out = await copied(page, "ssa-operator blame echo/web ConfigMap/web-plain", within=side)
        assert "plain.yaml.j2:6" in out
        for tab, begin, words in (
            ("change", "ssa-operator diff", "web-reader"),
            ("conditions", "kubectl describe ConfigMap web-plain", "web-plain"),
            ("events", "kubectl events --for ConfigMap/web-plain", ""),
            ("needs", "ssa-operator graph echo/web", "blocker"),
            ("history", "curl -s", '"created"'),
        ):
            await page.goto(f"{plain}&tab={tab}")
            assert words in await copied(page, begin, within=side, status=int(tab == "change"))
        await page.goto(f"{parent}?child=/ConfigMap/{desk.namespace}/blocker")
        await expect(page.locator(".code")).to_contain_text("kubectl")
        out = await copied(page, "kubectl get ConfigMap blocker", within=side)
        assert "manager: kubectl" in out

        # A folder.
        await page.goto(f"/ui/folders/{ECHOES}")
        assert "echoes" in await copied(page, "ssa-operator check")
        await page.goto(f"/ui/folders/{ECHOES}?tab=graph")
        assert "blocker" in await copied(page, "ssa-operator graph echo")
