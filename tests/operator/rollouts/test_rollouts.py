"""A changed template set in waves, on a real API server: canary, batches, a stop, a killed operator, undo, shards and
windows.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ssa_operator import __version__
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.objects.shards import Shard
from ssa_operator.operator.rollouts import folder_rollout
from ssa_operator.operator.rollouts.requests import RevisionStore
from ssa_operator.rendering.folder import installation
from ssa_operator.rendering.folder.installation import Installation
from tests.cli.process import run, started
from tests.devcluster.audit import own_requests
from tests.operator.harness import Desk, Operate, Running, definition, not_ready_because, ready_saying
from tests.operator.wall_clock import SteppingClock

pytestmark = pytest.mark.cluster

CHILD = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  text: TEXT
"""

EXTRA = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-extra
"""

WAITS = EXTRA.replace("-extra", "-new") + 'data: {a: \'{{ lookup("v1", "ConfigMap", "no").data.a }}\'}\n'
"""A document that waits for an object that nobody creates."""

SHARED = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: common
  annotations: {ssa-operator.dev/apply: Shared}
data:
  text: TEXT
"""

ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}

BROKEN = '{% if labels.tier is not defined %}{{ fail("no canary") }}{% endif %}\n'
"""Only the canary can be rendered."""

SETTINGS = """\
rollout:
  canary: {selector: {matchLabels: {tier: canary}}}
  batch: 2
  settle: 100ms
"""


def child(text: str) -> str:
    return CHILD.replace("TEXT", text)


CULPRIT = SETTINGS.replace("tier: canary", "culprit: 'true'")

NEVER = SETTINGS.replace("100ms", "1h")
"""No second wave begins."""


class Story:
    """A folder with rollouts, its parents, and the commands of a user."""

    def __init__(self, desk: Desk, folder: str, templates: Path, parents: int = 6) -> None:
        self.desk = desk
        self.folder = folder
        self.templates = templates
        self.parents = parents

    def write(self, text: str, settings: str = SETTINGS) -> None:
        path = self.templates / self.folder
        path.mkdir(exist_ok=True, parents=True)
        (path / "_settings.yaml").write_text(settings)
        (path / "child.yaml.j2").write_text(text)

    async def create_parents(self, *, reports_revision: bool = True) -> None:
        """The first one is the canary."""
        plural, group = self.folder.split(".", 1)
        crd = definition(plural, group, "Thing")
        if not reports_revision:
            shown = {"conditions": ANYTHING, "observedGeneration": {"type": "integer"}}
            schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            schema["properties"]["status"] = {"type": "object", "properties": shown}
        await self.desk.define(crd)
        for number in range(self.parents):
            await self._create_parent(number)

    async def parent_of_shard(self, shard: Shard) -> str:
        """The name of a parent of the shard. The API server draws the uids, so parents are added until it has one."""
        number = 0
        while True:
            if number == self.parents:
                await self._create_parent(number)
                self.parents += 1
            if shard.owns((await self.desk.read(self.folder, f"p{number}"))["metadata"]["uid"]):
                return f"p{number}"
            number += 1

    async def _create_parent(self, number: int) -> None:
        labels = {"tier": "canary"} if number == 0 else {}
        metadata = {"name": f"p{number}", "labels": labels}
        group = self.folder.partition(".")[2]
        await self.desk.apply({"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": metadata, "spec": {}})

    async def rollout(self, command: str, *arguments: str) -> tuple[int, str, str]:
        where = (f"--kubeconfig={self.desk.kubeconfig}", f"--operator-namespace={self.desk.namespace}")
        code, out, err = await run("rollout", command, self.folder, *arguments, *where)
        return code, out, err

    async def texts(self) -> dict[str, str]:
        found = {}
        for number in range(self.parents):
            child = await self.desk.find("configmaps", f"p{number}")
            found[f"p{number}"] = child["data"]["text"] if child else ""
        return found

    async def uid(self, name: str) -> str:
        found = await self.desk.until("configmaps", name, lambda body: "deletionTimestamp" not in body["metadata"])
        return str(found["metadata"]["uid"])

    async def revisions(self) -> dict[str, str]:
        found = {}
        for number in range(self.parents):
            parent = await self.desk.find(self.folder, f"p{number}")
            found[f"p{number}"] = parent["status"]["revision"] if parent else ""
        return found

    async def until_all_have(self, text: str) -> None:
        for number in range(self.parents):
            await self.desk.until("configmaps", f"p{number}", lambda body: body["data"]["text"] == text)

    async def until_stored(self, *words: str) -> None:
        """Returns once the stored state has these words."""

        def has(body: dict[str, Any]) -> bool:
            state = body["metadata"]["annotations"]["ssa-operator.dev/rollout-state"]
            return all(word in state for word in words)

        await self.desk.until("controllerrevisions.apps", self.folder, has)


async def test_a_rollout_from_the_canary_to_its_undo(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one") + EXTRA)
    options = {"templates": story.templates, "installation": Installation(namespace=namespace)}
    await story.create_parents()
    async with operate(**options):
        await story.until_all_have("one")
        await story.until_stored('"successes":[')
        code, out, _ = await story.rollout("status")
        assert (code, out) == (0, f"{story.folder} successfully rolled out\n")
        first = (await desk.ready(story.folder, "p1"))["status"]["revision"]
        story.write(BROKEN + child("two") + EXTRA)
        await story.until_stored("no canary")
        code, _, err = await story.rollout("status")
        assert code == 1
        assert "that were Ready are not Ready" in err or "that was Ready is not Ready" in err
        stopped = await story.texts()
        assert stopped == {**dict.fromkeys(stopped, "one"), "p0": "two"}
        revisions = await story.revisions()
        kept = [name for name, revision in revisions.items() if revision == first]
        assert len(kept) == 3, "one batch of two parents is reached"
        await desk.until_event("RolloutStopped", "no canary", about=story.folder)
        broken = next(name for name, revision in revisions.items() if revision != first and name != "p0")
        await desk.until_event("RolloutStopped", "it stopped the rollout of revision", about=broken)
    async with operate(**options) as again:  # as after a kill: what decides is stored
        await desk.delete("configmaps", kept[0])
        await desk.until("configmaps", kept[0], lambda body: body["data"]["text"] == "one")
        assert await story.texts() == stopped
        assert await story.revisions() == revisions
        assert "ssa_operator_rollout_stopped" in _metrics(again)
        code, out, _ = await story.rollout("undo")
        assert (code, out) == (0, f"{story.folder} rolled back to revision 1 ({first})\n")
        await story.until_all_have("one")
        assert (await story.rollout("status"))[0] == 0
        assert set((await story.revisions()).values()) == {first}
        code, out, _ = await story.rollout("history")
        assert [line.split()[0] for line in out.splitlines()] == ["REVISION", "2", "3", "revision"]
        assert "current" in out.splitlines()[2]
        head, undone, _, reason = out.splitlines()
        assert head.split() == ["REVISION", "NAME", "CREATED", "STATE", "CHANGED", "CHANGE-CAUSE"]
        assert re.search(r" undone +<unknown> +<none> *$", undone), undone
        assert re.match(r"revision 2: [12] parents? that .*no canary", reason), reason
        code, out, _ = await story.rollout("history", "--revision=3")
        assert (code, "  changed: child.yaml.j2\n" in out, "-  text: two\n+  text: one\n" in out) == (0, True, True), (
            out
        )
        code, out, err = await story.rollout("history", "--revision=1")
        assert (code, out, "revision 1 of " in err, "is not stored" in err) == (1, "", True, True)
        parent, where = f"{story.folder}/p0", (f"--kubeconfig={desk.kubeconfig}", f"--namespace={namespace}")
        code, out, err = await run("render", parent, "--revision=2", f"--templates={story.templates}", *where)
        assert (code, "text: two" in out) == (0, True), err
        code, out, err = await run("diff", parent, "--revision=2", f"--templates={story.templates}", *where)
        assert (code, "+  text: two" in out) == (1, True), (out, err)
        code, _, err = await run("diff", parent, "--revision=9", f"--templates={story.templates}", *where)
        assert (code, "is not stored" in err) == (2, True), err
        for command in (("status", parent), ("tree", parent)):
            _, out, err = await run(*command, f"--templates={story.templates}", *where)
            assert f"Thing {namespace}/p0  Ready, revision {first}  " in out, (out, err)
        _, out, err = await run("plan", f"--templates={story.templates}", *where)
        assert "rolls out in waves: canary 1, then 3 batches of at most 2\n" in out, (out, err)
        code, _, err = await run("rollout", "status", f"templates/{story.folder}", where[0])
        assert (code, f"did you mean {story.folder}?" in err) == (1, True), err
        code, _, err = await story.rollout("undo", "--to-revision=2")
        assert code == 1
        assert "--force" in err
        story.write(child("three") + WAITS)
        await story.until_stored("it would delete or recreate 6 objects of 6 parents", "p0-extra", "6 of them wait")
        assert await desk.find("configmaps", "p0-extra"), "a set with a document that waits deletes without a question"
        story.write(child("three"))
        await story.until_stored("it would delete or recreate 6 objects of 6 parents: ", "p0-extra")
        assert set((await story.texts()).values()) == {"one"}
        assert (await story.rollout("resume"))[0] == 0
        await desk.gone("configmaps", "p3-extra")
        code, out, _ = await story.rollout("status")
        assert (code, out.splitlines()[-1]) == (0, f"{story.folder} successfully rolled out")
        assert len(set((await story.revisions()).values()) - {first}) == 1
        story.write(child("four"), settings="")  # without rollouts, all at once
        await story.until_all_have("four")
        for number in range(6):
            await desk.until(story.folder, f"p{number}", lambda body: "revision" not in body["status"])
        story.write(child("five"), settings=NEVER)
        await story.until_all_have("five")


async def test_waves_over_the_parents_of_two_shards_begin_when_the_window_opens(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path, clock: SteppingClock
) -> None:
    later = (datetime.now(UTC).hour + 12) % 24
    window = f"  window: {{schedule: '0 {later} * * *', duration: 1h}}\n"
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one"), SETTINGS + window)
    options = {"templates": story.templates, "installation": Installation(namespace=namespace)}
    await story.create_parents()
    async with operate(shard=Shard(0, 2), **options), operate(shard=Shard(1, 2), **options):
        await story.until_all_have("one")
        story.write(child("two"), SETTINGS + window)
        await story.until_stored('"opens":')
        code, out, _ = await story.rollout("status", "--no-watch")
        opens = re.search(
            rf"0 of 6 parents updated; no wave begins before its window opens: (\S+T{later:02}:00\S+)", out
        )
        assert opens is not None, (code, out)
        assert set((await story.texts()).values()) == {"one"}
        clock.stepped = datetime.fromisoformat(opens[1]).timestamp() - time.time() + 60
        await story.until_all_have("two")
        code, out, _ = await story.rollout("status")
        assert (code, out.splitlines()[-1]) == (0, f"{story.folder} successfully rolled out")
        assert len(set((await story.revisions()).values())) == 1


async def test_a_stopped_rollout_of_two_shards_asks_nothing_and_goes_on_when_its_culprit_is_ready(
    desk: Desk,
    operate: Operate,
    cluster: Cluster,
    group: str,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for interval in ("LIST_INTERVAL", "READ_INTERVAL", "WINDOW_INTERVAL"):
        monkeypatch.setattr(folder_rollout, interval, 0.05)
    # The pause after a look that a busy machine makes long must not outlast the wait for the last looks.
    monkeypatch.setattr(folder_rollout, "LOOK_SHARE", 0)
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one"))
    await story.create_parents()
    other = Shard(1, 2)
    culprit = await story.parent_of_shard(other)
    await desk.patch(story.folder, culprit, metadata={"labels": {"culprit": "true"}})

    def asked() -> list[str]:
        """The requests for parents and revisions but watches, which end by themselves and begin again."""
        mine = (story.folder.partition(".")[0], "controllerrevisions")
        found = [each for each in own_requests(cluster, namespace) if each["objectRef"]["resource"] in mine]
        return [f"{each['verb']} {each['requestURI']}" for each in found if each["verb"] != "watch"]

    options = {"templates": story.templates, "installation": Installation(namespace=namespace)}
    async with operate(shard=Shard(0, 2), **options) as first, operate(shard=other, **options) as second:
        await story.until_all_have("one")
        await story.until_stored('"successes":[')
        for number in range(story.parents):
            await desk.ready(story.folder, f"p{number}")
        story.write('{% if labels.culprit is defined %}{{ fail("broken") }}{% endif %}\n' + child("two"), CULPRIT)
        await story.until_stored(f"{culprit}: ", "broken")
        await desk.until(story.folder, culprit, not_ready_because("RenderFailed"))
        for running in (first, second):
            await running.operator.queue.until_idle()
        await desk.until_event("RolloutStopped", "it stopped the rollout", about=culprit)

        async def some_time_passes() -> None:
            for _ in range(8):
                assert (await run("rollout", "--help"))[0] == 0

        before, now = -1, len(asked())
        while before != now:  # the last looks end
            await some_time_passes()
            before, now = now, len(asked())
        await some_time_passes()
        assert asked()[now:] == []
        await desk.patch(story.folder, culprit, metadata={"labels": {"culprit": None}})
        await story.until_all_have("two")


@pytest.mark.parametrize("reports", [True, False], ids=["with status.revision", "without"])
async def test_a_state_that_a_set_without_rollouts_has_run_past_deletes_nothing(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path, *, reports: bool
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one"))
    await story.create_parents(reports_revision=reports)
    async with operate(templates=story.templates, installation=Installation(namespace=namespace)):
        await story.until_all_have("one")
        await story.until_stored('"successes":[')
        story.write(child("two") + EXTRA, settings="")
        await story.until_all_have("two")
        before = [await story.uid(f"p{number}-extra") for number in range(6)]
        story.write(child("three") + EXTRA, settings=NEVER)
        await story.until_all_have("three")
        assert [await story.uid(f"p{number}-extra") for number in range(6)] == before


async def test_a_broken_set_reaches_nobody_else_whatever_becomes_of_its_canary_and_its_state(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path
) -> None:
    window = f"  window: {{schedule: '0 {(datetime.now(UTC).hour + 12) % 24} * * *', duration: 1h}}\n"
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one"), SETTINGS + window)
    options = {"templates": story.templates, "installation": Installation(namespace=namespace)}
    await story.create_parents()
    async with operate(**options):
        await story.until_all_have("one")
        await story.until_stored('"successes":[')
        first = (await desk.ready(story.folder, "p1"))["status"]["revision"]
        story.write('{{ fail("broken") }}' + child("two"), SETTINGS + window)
        await story.until_stored('"opens":')
        assert await story.rollout("resume") == (0, f"{story.folder} resumed outside of its window, once\n", "")
        await story.until_stored("broken")
        code, _, err = await story.rollout("status", "--no-watch")
        assert code == 1, "a stopped rollout counts as one that goes on"
        assert "p0: " in err
        await desk.patch(story.folder, "p0", metadata={"annotations": {"ssa-operator.dev/suspend": "true"}})
        await desk.delete("controllerrevisions.apps", story.folder)
        await story.until_stored("broken")
        kept = await story.revisions()
        assert [name for name, revision in kept.items() if revision != first] == ["p0"]
        await desk.patch(story.folder, "p0", metadata={"annotations": {"ssa-operator.dev/suspend": "false"}})
        code, out, _ = await story.rollout("undo")
        assert (code, out) == (0, f"{story.folder} rolled back to revision 1 ({first})\n")
        code, out, _ = await story.rollout("status", "--timeout=60")
        assert (code, out.splitlines()[-1]) == (0, f"{story.folder} successfully rolled out")
        await desk.until(story.folder, "p0", lambda body: body["status"]["revision"] == first)
        code, _, err = await story.rollout("undo")
        assert code == 1
        assert "already" in err
        assert (await story.rollout("pause"))[0] == 0
        assert (await story.rollout("pause"))[2].endswith(f"{story.folder} is already paused\n")
        assert "it is paused" in (await story.rollout("status"))[1]
        assert (await story.rollout("resume"))[0] == 0
        assert (await story.rollout("resume"))[2].endswith(f"{story.folder} is not paused\n")
        story.write(child("three"), NEVER)
        await desk.until("configmaps", "p0", lambda body: body["data"]["text"] == "three")
        await story.until_stored('"settles":')
        code, out, _ = await story.rollout("status", "--no-watch")
        words = r": canary, 1 of 6 parents updated; they are Ready, and `settle` ends at \S+Z$"
        assert (code, bool(re.search(words, out))) == (0, True), out
    await desk.delete("controllerrevisions.apps", f"{story.folder}-{first}")
    await desk.delete("controllerrevisions.apps", story.folder)
    async with operate(**options):
        for number in range(1, 6):
            await desk.until(story.folder, f"p{number}", not_ready_because("RenderFailed", "can't be rendered"))
        assert await story.texts() == {**dict.fromkeys(kept, "one"), "p0": "three"}


async def test_a_set_that_can_not_be_stored_reaches_nobody(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, refused = RevisionStore.store, asyncio.Event()

    async def refuse(self: RevisionStore, *arguments: Any) -> Any:
        refused.set()
        raise ApiError("create ControllerRevision", ErrorStatus(code=403, reason="Forbidden", message="no"))

    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one"))
    await story.create_parents()
    monkeypatch.setattr(RevisionStore, "store", refuse)
    async with operate(templates=story.templates, installation=Installation(namespace=namespace)):
        await story.until_all_have("one")
        story.write(child("two"))
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "new"}, "spec": {}})
        await desk.until("configmaps", "new", lambda body: body["data"]["text"] == "one")
        refused.clear()
        await refused.wait()
        assert set((await story.texts()).values()) == {"one"}
        for number in range(6):
            await desk.until(story.folder, f"p{number}", ready_saying("their revision can't be stored: create Contr"))
        for where in ([f"--operator-namespace={namespace}"], []):
            _, _, err = await run("rollout", "status", story.folder, f"--kubeconfig={desk.kubeconfig}", *where)
            assert "their revision can't be stored: create ControllerRevision failed (403" in err, err
        monkeypatch.setattr(RevisionStore, "store", store)
        await story.until_all_have("two")
        assert (await story.rollout("status"))[0] == 0
        for number in range(6):
            await desk.until(story.folder, f"p{number}", lambda body: "can't be stored" not in str(body["status"]))
        monkeypatch.setattr(RevisionStore, "store", refuse)
        story.write(child("three"))
        await story.until_stored('"unstored":')
        code, out, _ = await story.rollout("status", "--no-watch")
        words = "their revision can't be stored: create ControllerRevision"
        assert (code, f"waits: no parent gets other templates, because {words}" in out) == (0, True), out
        await desk.until(story.folder, "p3", ready_saying(words))
        assert set((await story.texts()).values()) == {"two"}
        monkeypatch.setattr(RevisionStore, "store", store)
        story.write(child("three") + EXTRA)
        await story.until_all_have("three")
        assert (await story.rollout("status"))[0] == 0
        code, _, err = await story.rollout("undo")
        assert code == 1
        assert "waits to be rolled back to revision" in err
        assert "it would delete or recreate 7 objects of 7 parents" in err
        assert set((await story.texts()).values()) == {"three"}
        code, out, _ = await story.rollout("undo", "--yes")
        assert (code, "rolled back to revision" in out) == (0, True)
        await desk.gone("configmaps", "p3-extra")
        renamed = child("four").replace("{{ name }}", "{{ name }}-renamed")
        story.write(renamed, SETTINGS + "  maxPrune: 100\n")
        for number in range(6):
            await desk.gone("configmaps", f"p{number}")
            await desk.ready(story.folder, f"p{number}")


async def test_a_change_of_a_shared_object_asks_before_it_stops_at_its_first_owner(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    await story.create_parents()

    async def text() -> str:
        return str((await desk.read("configmaps", "common"))["data"]["text"])

    async with operate(templates=story.templates, installation=Installation(namespace=namespace)):
        story.write(child("one") + SHARED.replace("TEXT", "one"))
        await story.until_all_have("one")
        await story.until_stored('"successes":[')
        for number in range(6):
            await desk.ready(story.folder, f"p{number}")
        story.write(child("two") + SHARED.replace("TEXT", "one"))
        await story.until_all_have("two")
        assert (await story.rollout("status"))[0] == 0, "a shared object that stays as it is stops a rollout"
        story.write(child("three") + SHARED.replace("TEXT", "three"))
        await story.until_stored("it changes ConfigMap", "/common, which several parents share", "give it another name")
        assert (await text(), set((await story.texts()).values())) == ("one", {"two"})
        assert (await story.rollout("resume"))[0] == 0
        await story.until_stored("is rendered differently by Thing")
        assert (await text(), sorted((await story.texts()).values())) == ("one", ["three", *["two"] * 5])
        story.write(child("four"))
        await story.until_stored("it would delete or recreate 1 object", "/common")
        assert (await text(), sorted((await story.texts()).values())) == ("one", ["three", *["two"] * 5])
        story.write(child("four") + SHARED.replace("TEXT", "one"))
        await story.until_all_have("four")
        assert (await story.rollout("status"))[0] == 0


async def test_an_undo_to_a_revision_that_can_not_be_rendered_says_so_and_changes_nothing(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    await story.create_parents()
    async with operate(templates=story.templates, installation=Installation(namespace=namespace)):
        story.write(child("one"))
        await story.until_all_have("one")
        await story.until_stored('"successes":[')
        first = (await desk.ready(story.folder, "p1"))["status"]["revision"]
        story.write(child("two"))
        await story.until_all_have("two")
        assert (await story.rollout("status"))[0] == 0
        name = f"{story.folder}-{first}"
        stored = await desk.read("controllerrevisions.apps", name)
        await desk.delete("controllerrevisions.apps", name)
        metadata = {part: stored["metadata"][part] for part in ("name", "labels", "annotations")}
        await desk.apply({**stored, "metadata": metadata, "data": {"content": "damaged"}})
        revisions = await story.revisions()
        for arguments in ((), (), ("--yes",)):
            code, out, err = await story.rollout("undo", *arguments)
            assert (code, out) == (1, "")
            assert f"can't be rolled back to revision 1 ({first}): revision {first} can't be rendered: its" in err
            assert (await story.revisions(), set((await story.texts()).values())) == (revisions, {"two"})
        code, out, _ = await story.rollout("status", "--no-watch")
        words = f"0 of 6 parents updated; revision {first} can't be rendered: its content can't be read"
        assert (code, words in out) == (0, True), out
        story.write(child("three"))
        await story.until_all_have("three")
        assert (await story.rollout("status"))[0] == 0


async def test_an_upgrade_that_is_held_and_breaks_stops_at_its_canary(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write('{% if operator.version == "2" %}{{ fail("new version") }}{% endif %}\n' + child("one"))
    options = {
        "templates": story.templates,
        "installation": Installation(namespace=namespace, hold_upgrade=True),
    }
    await story.create_parents()
    async with operate(**options):
        await story.until_all_have("one")
        await story.until_stored('"successes":[')
        for number in range(6):
            first = (await desk.ready(story.folder, f"p{number}"))["status"]["revision"]
    for module in (installation, folder_rollout):
        monkeypatch.setattr(module, "__version__", "2")
    story.write((story.templates / story.folder / "child.yaml.j2").read_text(), settings="rollout: {batch: 0}\n")
    async with operate(**options):  # nor do settings that don't load count as none
        for number in range(6):
            await desk.until(story.folder, f"p{number}", not_ready_because("RenderFailed"))
        story.write((story.templates / story.folder / "child.yaml.j2").read_text())
        await story.until_stored("new version")
        kept = await story.revisions()
        assert [name for name, revision in kept.items() if revision != first] == ["p0"]
    for module in (installation, folder_rollout):
        monkeypatch.setattr(module, "__version__", __version__)
    async with operate(**options):
        for number in range(6):
            await desk.ready(story.folder, f"p{number}")
        assert (await story.rollout("status"))[0] == 0
        assert set((await story.revisions()).values()) == {first}


@pytest.mark.slow
async def test_an_operator_that_is_killed_in_the_middle_goes_on(
    desk: Desk, group: str, namespace: str, tmp_path: Path
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    story.write(child("one"))
    await story.create_parents()
    where = (f"--kubeconfig={desk.kubeconfig}", f"--templates={story.templates}", f"--namespace={namespace}")
    async with started("run", *where, POD_NAMESPACE=namespace) as command:
        await story.until_all_have("one")
        await story.until_stored('"successes":[')
        story.write(child("two"))
        await desk.until("configmaps", "p0", lambda body: body["data"]["text"] == "two")
        command.process.send_signal(signal.SIGKILL)
        await command.process.wait()
    before = await story.texts()
    assert "one" in before.values()
    story.write("{% if %}")  # nor is the set on disk needed to go on
    async with started("run", *where, POD_NAMESPACE=namespace):
        await story.until_all_have("two")
        assert (await story.rollout("status"))[0] == 0
        assert len(set((await story.revisions()).values())) == 1


def _metrics(running: Running) -> str:
    running.operator.measure()
    return running.operator.metrics.text().decode()
