"""The page of a folder's rollout, and its JSON, of an operator on a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import expect

from ssa_operator.objects.rollout_settings import Batch, RolloutSettings
from ssa_operator.operator.http import Server
from ssa_operator.operator.rollouts.rules import Member, first_state, waves_ahead, with_loaded
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import FolderInputs
from ssa_operator.web.answers import OPERATIONS, ParentObject
from ssa_operator.web.folder_page import STAND_IN
from ssa_operator.web.rollout_page import changed_files
from ssa_operator.web.routes import WebView
from tests.docs.browser import BROWSER
from tests.operator.harness import Desk, Operate
from tests.operator.rollouts.test_rollouts import EXTRA, NEVER, Story, child
from tests.web.test_pages import TOO_FAINT, browser_page
from tests.web.test_web_view import Page, viewing

BREAKS_CANARY = '{% if labels.tier is defined %}{{ fail("no canary") }}{% endif %}\n'
BREAKS_LATER = '{% if labels.tier is not defined %}{{ fail("no batch") }}{% endif %}\n'


def test_the_waves_ahead_are_the_canary_batches_and_at_last_what_was_not_ready() -> None:
    members = [Member(uid=str(at), name=f"p{at}", ready=at != 3, runs="a", revision="a") for at in range(6)]
    members.append(Member(uid="6", name="p6", runs="a", ready=True, suspended=True))
    state = with_loaded(first_state("a"), "b")
    found = waves_ahead(state, members, RolloutSettings(batch=Batch(2)), 9)
    assert [len(wave) for _, wave in found] == [1, 2, 2, 1]
    assert [(begun.batch, begun.batches) for begun, _ in found] == [(0, 0), (1, 3), (2, 3), (3, 3)]
    assert [each.name for each in found[-1][1]] == ["p3"]
    assert "p6" not in {each.name for _, wave in found for each in wave}
    assert len(waves_ahead(state, members, RolloutSettings(batch=Batch(2)), 2)) == 2
    assert waves_ahead(first_state("a"), members, RolloutSettings(), 9) == []


def test_what_sets_differ_in_has_no_value_of_a_secret_and_no_content_of_a_data_file() -> None:
    secret = "kind: Secret\nstringData:\n  password: hunter2-%s\n"
    before = FolderInputs(
        files={"f/s.yaml.j2": secret % "a", "f/a.yaml.j2": "x: 1\n", "f/b.j2": ""}, data={"f/c": b"1"}
    )
    after = FolderInputs(files={"f/s.yaml.j2": secret % "b", "f/a.yaml.j2": "x: 2\n"}, data={"f/c": b"hunter2"})
    found = changed_files(before, after)
    assert list(found) == ["f/a.yaml.j2", "f/b.j2", "f/s.yaml.j2", "f/c"]
    assert [(line.mark, line.text) for line in found["f/a.yaml.j2"].lines[1:]] == [("-", "x: 1"), ("+", "x: 2")]
    assert found["f/b.j2"].removed
    assert found["f/s.yaml.j2"].hidden
    assert "hunter2" not in str(found)
    removed = changed_files(before, FolderInputs(files={}, data={}))
    assert STAND_IN in str(removed["f/s.yaml.j2"].lines)
    assert "hunter2" not in str(removed)


async def until(values: AsyncIterator[Any], phase: str, **fields: Any) -> Any:
    """The first value with this phase and these fields."""
    async for value in values:
        if value.get("phase") == phase and all(value.get(name) == each for name, each in fields.items()):
            typed = msgspec.convert(value, OPERATIONS["/api/v1/folders/{folder}/rollout"].answer)
            assert msgspec.json.decode(msgspec.json.encode(typed)) == value
            return value
    raise AssertionError(phase)


def steps(page: Any) -> list[tuple[str, dict[str, int]]]:
    return [(wave["name"], wave["steps"]) for wave in page["waves"]]


@pytest.mark.cluster
async def test_the_json_has_a_stopped_a_held_and_a_running_rollout_in_the_words_of_the_command(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one"))
    await story.create_parents()
    options: dict[str, Any] = {"templates": story.templates, "installation": Installation(namespace=namespace)}
    path = f"folders/{story.folder}/rollout"
    async with viewing(operate, **options) as page, page.stream(path) as values:
        await story.until_all_have("one")
        value = await until(values, "Complete", ready=6)
        first = value["revision"]
        assert steps(value) == [("All parents", {"ready": 6})]
        assert ("before" in value, "files" in value, "undo" in value) == (False, False, False)
        parent = (await page.json(f"parents/{story.folder}/{desk.namespace}/p0"))["parent"]
        assert parent["revision"] == first
        assert msgspec.convert(parent, ParentObject) == parent, "the reference has these fields"
        story.write(BREAKS_CANARY + child("two"))
        value = await until(values, "Stopped")
        assert value["message"] in (await story.rollout("status", "--no-watch"))[2]
        assert "no canary" in value["stopped"]
        assert (value["before"], value["undo"], value["resumes"]) == (first, first, True)
        assert "pauses" not in value
        assert steps(value) == [
            ("Canary", {"failed": 1}),
            ("Batch 1 of 3", {"left": 2}),
            ("Batch 2 of 3", {"left": 2}),
            ("Batch 3 of 3", {"left": 1}),
        ]
        (broken,) = value["waves"][0]["parents"]
        assert (broken["name"], broken["broken"], broken["group"]) == ("p0", True, "failed")
        assert f"{story.folder}/child.yaml.j2:1: " in broken["message"]
        assert value["settings"] == {"batch": "2", "settle": "0.1s", "maxUnready": "0", "maxPrune": "0"}
        lines = value["files"][f"{story.folder}/child.yaml.j2"]["lines"]
        assert [line["mark"] for line in lines if line["mark"] in "+-"] == ["+", "-", "+"]
        while value["history"][0].get("result") != "Stopped":  # that is written after the state
            value = await anext(values)
        assert [each["number"] for each in value["history"]] == [2, 1]
        assert "no canary" in value["history"][0]["reason"]
        overview = await page.json("overview")
        assert overview["folders"][story.folder]["rollout"]["phase"] == "Stopped"
        story.write(child("three") + EXTRA)
        await until(values, "Complete", ready=6)
        story.write(child("four"))
        value = await until(values, "Waiting")
        assert "it would delete or recreate 6 objects of 6 parents" in value["held"]
        assert ("updated" in value, value["resumes"]) == (False, True)
        assert [name for name, _ in steps(value)] == ["Canary", "Batch 1 of 3", "Batch 2 of 3", "Batch 3 of 3"]
        assert (await story.rollout("resume"))[0] == 0
        await until(values, "Complete", ready=6)
        story.write(child("five"), NEVER)
        value = await until(values, "Progressing", ready=1)
        assert steps(value)[0] == ("Canary", {"ready": 1})
        assert value["pauses"]
        while not value.get("settled"):  # the operator looks at the wave a moment later
            value = await anext(values)
        assert (await story.rollout("pause"))[0] == 0
        value = await until(values, "Paused")
        assert ("pauses" in value, value["resumes"]) == (False, True)


@pytest.mark.cluster
async def test_a_folder_without_rollouts_says_so_and_another_one_is_not_there(page_of_echoes: Page) -> None:
    assert (await page_of_echoes.json("folders/echoes.example.com/rollout"))["phase"] == "None"
    await page_of_echoes.json("folders/no.example.com/rollout", status=404)


@pytest.fixture
async def page_of_echoes(desk: Desk, operate: Operate) -> AsyncIterator[Page]:
    async with viewing(operate) as page:
        yield page


@pytest.mark.cluster
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
async def test_a_stopped_rollout_is_found_from_the_overview_and_has_the_line_that_broke(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one"))
    await story.create_parents()
    options: dict[str, Any] = {"templates": story.templates, "installation": Installation(namespace=namespace)}
    async with (
        operate(listen=("127.0.0.1", 0), **options) as running,
        Server(running.operator, "127.0.0.1", 0, WebView(running.operator)) as server,
        browser_page(server.port) as page,
    ):
        await story.until_all_have("one")
        story.write(child("two") + BREAKS_LATER)
        await story.until_stored("no batch")
        await page.goto("/ui/")
        await page.get_by_role("link", name=f"Rollout of {story.folder}", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(story.folder)
        await expect(page.locator(".head .why")).to_contain_text("Stopped")
        await expect(page.locator(".code .wrong")).to_contain_text("no batch")
        await expect(page.get_by_text(f"ssa-operator rollout undo {story.folder}", exact=True)).to_be_visible()
        await expect(page.locator(".revisions .on")).to_contain_text("Stopped")
        await expect(page.locator(".waves li")).to_have_count(4)
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            assert await page.evaluate(TOO_FAINT) == []
        assert (await story.rollout("undo"))[0] == 0
        await expect(page.locator(".head .why")).to_contain_text("Rolled out")
