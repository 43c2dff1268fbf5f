"""A NeonDatabase comes up on its page, and each edge turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.docs.browser import BROWSER
from tests.operator.harness import ROOT, Desk, Operate
from tests.web.test_pages import browsing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.cluster,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome"),
]

WORKLOADS = (
    "db-minio StatefulSet",
    "db-bucket Job",
    "db-broker Deployment",
    "db-safekeeper StatefulSet",
    "db-pageserver StatefulSet",
    "db-tenant Job",
    "db-timeline Job",
    "db-compute Deployment",
)
"""In the order in which they begin."""

ROLE = "db-role-app Secret"
DATABASES = ("db-databases Secret", "db-databases Job")
"""What waits for the Secret of the role, and then for its own."""


@pytest.fixture
def templates() -> Path:
    """The project's templates, which no test changes."""
    return ROOT / "templates"


async def test_a_database_comes_up_and_each_edge_turns(desk: Desk, operate: Operate) -> None:
    roles = [{"name": "app", "secretRef": {"name": "app-password"}}]
    database = {
        "apiVersion": "melenion.com/v1",
        "kind": "NeonDatabase",
        "metadata": {"name": "db"},
        "spec": {"postgres_version": 17, "roles": roles},
    }
    # As high as all of the tree.
    async with browsing(operate, viewport={"width": 1440, "height": 2400}) as page:
        await page.goto("/ui/")
        await expect(page.get_by_text("There are no parents yet")).to_be_visible()
        await desk.apply(database)
        await page.get_by_role("link", name="db").click()
        for workload in WORKLOADS:
            await expect(page.get_by_role("treeitem", name=workload)).to_contain_text("Current", timeout=120_000)
        # What waits for the user's Secret says so, and lines lead from each to what it waits for.
        await expect(page.get_by_role("treeitem", name=ROLE)).to_contain_text(
            "waiting for Secret app-password .data.password"
        )
        for waiting in DATABASES:
            await expect(page.get_by_role("treeitem", name=waiting)).to_contain_text("Waiting")
        await expect(page.locator(".arcs .blocked")).to_have_count(1 + len(DATABASES))
        await page.get_by_role("treeitem", name="db-compute Deployment").click()
        await page.get_by_role("tab", name="Needs").click()
        await expect(page.locator(".edges")).to_contain_text("Secret db-compute")
        login = {"username": "app", "password": "of-the-user"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app-password"}, "stringData": login}
        await desk.apply(secret)
        # Siblings that are all well are one line now.
        for turned in ("5 Secrets", "4 Jobs"):
            await expect(page.get_by_role("treeitem", name=turned)).to_contain_text("Current", timeout=120_000)
        await expect(page.get_by_role("treeitem", name="Waiting")).to_have_count(0)
        await expect(page.locator(".arcs .blocked")).to_have_count(0)
        await expect(page.locator(".why")).to_contain_text("Ready")
        assert "of-the-user" not in await page.content()
