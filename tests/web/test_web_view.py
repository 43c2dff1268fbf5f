"""The JSON and the pages of the web view, of an operator on a real API server."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from docs.generate.openapi import document
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.operator.http import Server
from ssa_operator.reconcile.status.child_status import STATUS_HIDDEN
from ssa_operator.web.answers import OPERATIONS
from ssa_operator.web.routes import WebView
from tests.operator.harness import ECHOES, Desk, Operate, echo, map_template, only
from tests.operator.limited_accounts import Rules
from tests.operator.test_http import EVERYWHERE, new_account
from tests.secret_contents import OUTPUTS
from tests.web.test_merge_patch import apply_merge_patch

pytestmark = pytest.mark.cluster

SECRET = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}-password
stringData:
  password: {{ generated(16) }}
"""

READS_SECRET = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-reader
data:
  user: web
  dsn: postgres://{{ child('Secret', name ~ '-password').data.password | b64decode }}@db
"""

LOOKS = """\
{% if name == 'web' %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-looks
data:
  secret: {{ lookup('v1', 'Secret', 'others').metadata.name }}
  made: {{ lookup('v1', 'ConfigMap', 'second-reader').metadata.name }}
  free: {{ lookup('v1', 'ConfigMap', 'free').data.x }}
{% endif %}
"""


def documented(answer: aiohttp.ClientResponse, method: str) -> Mapping[str, Any]:
    """The answers of a request's path in the OpenAPI document."""
    paths = document()["paths"]
    for path in sorted(paths, key=lambda each: each.count("{")):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), answer.url.path):
            found: Mapping[str, Any] = paths[path][method]["responses"]
            return found
    raise AssertionError(answer.url.path)


class Page:
    """Reads as a browser does."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def json(self, path: str, status: int = 200) -> Any:
        async with self._session.get(f"/api/v1/{path}") as answer:
            text = await answer.text()
            assert answer.status == status, text
            assert str(status) in documented(answer, "get"), "docs/generate/openapi.py names each status"
            OUTPUTS.add(path, text)
            return json.loads(text) if status == 200 else text

    async def open(self, path: str) -> aiohttp.ClientResponse:
        return await self._session.get(path)

    @contextlib.asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[AsyncIterator[Any]]:
        """The values of a page, each whole, as its patches make them."""
        async with self._session.get(f"/api/v1/{path}{'&' if '?' in path else '?'}stream=1") as answer:
            assert answer.content_type == "text/event-stream"

            async def values() -> AsyncIterator[Any]:
                value: Any = None
                name = ""
                async for line in answer.content:
                    field, _, text = line.decode().rstrip("\n").partition(": ")
                    if field == "event":
                        name = text
                    elif field == "data":
                        value = apply_merge_patch(value if name == "change" else None, json.loads(text))
                        yield value

            yield values()


@contextlib.asynccontextmanager
async def viewing(operate: Operate, token: str = "", host: str = "127.0.0.1", **options: Any) -> AsyncIterator[Page]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        operate(listen=(host, 0), **options) as running,
        Server(running.operator, host, 0, WebView(running.operator)) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", headers=headers) as session,
    ):
        yield Page(session)


async def test_the_overview_has_the_states_of_all_parents(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    async with viewing(operate) as page:
        await desk.apply_until_ready(echo("web"))
        found = await page.json("overview")
        folder = found["folders"][ECHOES]
        assert (folder["kind"], folder["parents"], folder["counts"]) == ("Echo", 1, {"ready": 1})
        assert folder["loaded"] == (await page.json(f"folders/{ECHOES}"))["loaded"]
        assert "away" not in found
        address = f"{ECHOES}/{desk.namespace}/web"
        assert found["order"] == [address]
        row = found["items"][address]
        assert (row["group"], row["reason"], row["current"], row["children"]) == ("ready", "Ready", 1, 1)
        assert (await page.json("overview?text=nothing"))["matching"] == 0
        assert "limit is 'x'" in await page.json("overview?limit=x", 400)
        text = "group is 'broken', and has to be one of failed, working, unknown, ready, unready\n"
        assert await page.json("overview?group=broken", 400) == text


async def test_parents_of_a_built_in_kind_have_the_outcome_of_their_reconciles(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder = templates / "serviceaccounts"
    folder.mkdir()
    (folder / "plain.yaml.j2").write_text(map_template("plain", x="name"))
    async with viewing(operate) as page, page.stream("overview?folder=serviceaccounts&labels=tier%3Ddb") as values:
        robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "labels": {"tier": "db"}}}
        await desk.apply(robot)
        async for value in values:
            row = value["items"].get(f"serviceaccounts/{desk.namespace}/robot", {})
            if row.get("group") == "ready":
                break
        assert (value["matching"], row["current"], row["children"]) == (1, 1, 1)
        assert "labels is 'a=('" in await page.json("overview?labels=a%3D(", 400)


async def test_a_template_that_does_not_load_is_named_with_its_line(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"), broken="a: 1\n{% if spec %}\n")
    async with viewing(operate) as page:
        (problem,) = (await page.json("overview"))["folders"][ECHOES]["problems"]
        assert (problem["file"], problem["line"]) == (f"{ECHOES}/broken.yaml.j2", 2)
        async with page.stream(f"folders/{ECHOES}") as values:
            first = await anext(values)
            assert not first["loads"]
            assert [each["line"] for each in first["files"][f"{ECHOES}/broken.yaml.j2"]["problems"]] == [2]
            only(templates, plain=map_template("plain", x="spec.replicas"))
            async for value in values:  # for a moment there may be no folder, and the resource may not be served yet
                if value.get("loads") and value.get("kind") == "Echo":
                    break
            (node,) = value["graph"]["nodes"]
            assert (node["label"], node["file"]) == ("ConfigMap/sample-plain", f"{ECHOES}/plain.yaml.j2")
        assert "no such template folder" in await page.json("folders/others.example.com", 404)


async def test_files_of_no_folder_and_refused_crds_are_on_the_overview(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    (templates / "stray.yaml").write_text("a: 1\n")
    async with (
        operate(listen=("127.0.0.1", 0)) as running,
        Server(running.operator, "127.0.0.1", 0, WebView(running.operator)) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
    ):
        page = Page(session)
        found = await page.json("overview")
        (problem,) = found["problems"]
        assert (problem["file"], problem["line"]) == ("stray.yaml", 1)
        assert "crd" not in found["folders"][ECHOES]
        running.operator.controllers.set_refused_crds({ECHOES: "crds/a.yaml:1: v1 is stored"})
        assert (await page.json("overview"))["folders"][ECHOES]["crd"] == "crds/a.yaml:1: v1 is stored"


async def test_the_tree_of_a_parent_follows_its_children(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    async with viewing(operate) as page:
        await desk.apply_until_ready(echo("web"))
        async with page.stream(f"parents/{ECHOES}/{desk.namespace}/web") as values:
            key = f"/ConfigMap/{desk.namespace}/web-plain"
            # The status may be in the cluster a moment before it is in the operator's cache.
            async for first in values:
                if first["order"]:
                    break
            assert first["order"] == [key]
            assert first["nodes"][key]["state"] == "Current"
            (templates / ECHOES / "second.yaml.j2").write_text(map_template("second", x="spec.replicas"))
            async for value in values:
                if f"/ConfigMap/{desk.namespace}/web-second" in value["nodes"]:
                    break
            await desk.delete("echo", "web")
            async for value in values:
                if value.get("gone"):
                    assert value["error"] == f"{ECHOES}: there is no {desk.namespace}/web"
                    break


async def test_edges_and_lines_name_template_lines_and_hide_contents_of_secrets(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, password=SECRET, reader=READS_SECRET)
    async with viewing(operate) as page:
        await desk.apply_until_ready(echo("web"))
        parent = f"parents/{ECHOES}/{desk.namespace}/web"
        assert (await page.json(f"{parent}/edges"))["objects"] == {}
        (edge,) = (await page.json(f"{parent}/edges"))["edges"]
        reader, secret = f"/ConfigMap/{desk.namespace}/web-reader", f"/Secret/{desk.namespace}/web-password"
        assert (edge["source"], edge["target"]) == (reader, secret)
        assert (edge["file"], edge["line"]) == (f"{ECHOES}/reader.yaml.j2", 7)
        lines = {line.get("path"): line for line in (await page.json(f"{parent}/manifest?child={reader}"))["lines"]}
        user = lines["data.user"]
        assert (user["writer"], user["file"], user["line"]) == ("template", f"{ECHOES}/reader.yaml.j2", 6)
        assert HIDDEN in lines["data.dsn"]["text"]
        password = base64.b64decode((await desk.read("secrets", "web-password"))["data"]["password"]).decode()
        # Others may quote the content in a condition or an Event about an object that holds it.
        body = await desk.read("configmaps", "web-reader")
        about = {"kind": "ConfigMap", "name": "web-reader", "namespace": desk.namespace, "uid": body["metadata"]["uid"]}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "quoting"}, "involvedObject": about}
        await desk.apply({**event, "reason": "Quoting", "message": f"it is {password}", "type": "Warning"})
        details = await page.json(f"{parent}/details?child={reader}")
        assert [(each["reason"], each["note"]) for each in details["events"]] == [("Quoting", STATUS_HIDDEN)]
        shown = [f"{parent}/{part}?child={child}" for part in PARTS for child in (secret, reader)]
        for path in (parent, *shown, f"{parent}/details", "overview"):
            assert password not in json.dumps(await page.json(path))
        # What is no child is shown only as long as a template looks it up.
        others, free = f"/Secret/{desk.namespace}/others", f"/ConfigMap/{desk.namespace}/free"
        await desk.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "others"}, "stringData": {"x": "of-others-1"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}, "data": {"x": "for-all"}},
        )
        for path in (f"{parent}/manifest?child={free}", f"{parent}/details?child={free}"):
            assert "this parent" in await page.json(path, 404)
        (templates / ECHOES / "looks.yaml.j2").write_text(LOOKS)
        await desk.apply_until_ready(echo("second"))
        made = f"/ConfigMap/{desk.namespace}/second-reader"
        await desk.until("configmaps", "web-looks", lambda body: body["data"]["made"] == "second-reader")
        found = await page.json(f"{parent}/edges")
        assert {key: each["state"] for key, each in found["objects"].items()} == dict.fromkeys(
            (others, made, free), "Current"
        )
        assert {each["target"] for each in found["edges"]} == {secret, others, made, free}
        lines = {line.get("path"): line for line in (await page.json(f"{parent}/manifest?child={free}"))["lines"]}
        assert (lines["data.x"]["writer"], lines["data.x"]["manager"]) == ("manager", "kubectl")
        lines = {line.get("path"): line for line in (await page.json(f"{parent}/manifest?child={others}"))["lines"]}
        assert HIDDEN in lines["data.x"]["text"]
        # Another parent made it of a Secret.
        assert "Echo second made it" in (await page.json(f"{parent}/manifest?child={made}"))["note"]
        password = base64.b64decode((await desk.read("secrets", "second-password"))["data"]["password"]).decode()
        for child in (others, made, free):
            for part in ("manifest", "details"):
                text = json.dumps(await page.json(f"{parent}/{part}?child={child}"))
                assert "of-others" not in text
                assert base64.b64encode(b"of-others-1").decode() not in text
                assert password not in text
        assert "no live child" in await page.json(f"{parent}/manifest?child=/ConfigMap/{desk.namespace}/other", 404)
        assert "GROUP/KIND/NAMESPACE/NAME" in await page.json(f"{parent}/manifest?child=x", 400)


ANSWERS: Mapping[str, Sequence[str]] = {
    "/api/v1/reader": ("",),
    "/api/v1/folders/{folder}": ("",),
    "/api/v1/parents/{folder}/{namespace}/{name}/rendered": (
        "?file={folder}/reader.yaml.j2",
        "?file={folder}/password.yaml.j2",
    ),
    "/api/v1/parents/{folder}/{namespace}/{name}/details": (
        "",
        "?child=/ConfigMap/{namespace}/web-reader",
        "?child=/Secret/{namespace}/web-password",
    ),
    "/api/v1/parents/{folder}/{namespace}/{name}/would-change": (
        "",
        "?child=/ConfigMap/{namespace}/web-reader",
        "?child=/Secret/{namespace}/web-password",
    ),
    "/api/v1/overview": ("", "?text=web", "?group=unready"),
    "/api/v1/folders/{folder}/rollout": ("",),
    "/api/v1/parents/{folder}/{namespace}/{name}": ("",),
    "/api/v1/parents/{folder}/{namespace}/{name}/edges": ("",),
    "/api/v1/parents/{folder}/{namespace}/{name}/manifest": (
        "?child=/ConfigMap/{namespace}/web-reader",
        "?child=/Secret/{namespace}/web-password",
    ),
}
"""Each path of the JSON with the queries by which it shows parents and children. A new path needs a row."""


async def test_no_answer_has_a_secrets_content_or_a_field_that_the_reference_lacks(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, password=SECRET, reader=READS_SECRET)
    async with (
        operate(listen=("127.0.0.1", 0)) as running,
        Server(running.operator, "127.0.0.1", 0, WebView(running.operator)) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session,
    ):
        await desk.apply_until_ready(echo("web"))
        password = base64.b64decode((await desk.read("secrets", "web-password"))["data"]["password"]).decode()
        assert {path for path in OPERATIONS if "{namespace}" in path or "{name}" not in path} == ANSWERS.keys()
        shown = {"folder": ECHOES, "namespace": desk.namespace, "name": "web"}
        for path, queries in ANSWERS.items():
            for query in queries:
                address = (path + query).format_map(shown)
                text = await (answer := await session.get(address)).text()
                assert answer.status == 200, f"{address}: {text}"
                OUTPUTS.add(address, text)
                value = json.loads(text)
                typed = msgspec.json.encode(msgspec.convert(value, OPERATIONS[path].answer))
                assert json.loads(typed) == value, address
                if OPERATIONS[path].streams:
                    async with session.get(f"{address}{'&' if query else '?'}stream=1") as stream:
                        text += (await stream.content.readuntil(b"\n\n")).decode()
                for form in (password, base64.b64encode(password.encode()).decode()):
                    assert form not in text, address


async def test_the_overview_streams_what_changes(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, plain=map_template("plain", x="spec.replicas"))
    async with viewing(operate) as page, page.stream("overview") as values:
        first = await anext(values)
        assert first["parents"] == 0
        await desk.apply(echo("web"))
        async for value in values:
            row = value["items"].get(f"{ECHOES}/{desk.namespace}/web", {})
            if row.get("group") == "ready":
                break


async def test_pages_load_nothing_from_elsewhere_and_answer_get_alone(operate: Operate) -> None:
    async with viewing(operate) as page:
        for path in ("/ui/", "/ui/parents/echoes.example.com/default/web", "/ui/assets/app.js", "/api/v1/overview"):
            answer = await page.open(path)
            assert answer.status == 200, path
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert (await page.open("/ui/assets/..%2froutes.py")).status == 404
        answer = await page.open("/ui/assets/app.js")
        again = await page._session.get("/ui/assets/app.js", headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status == 304
        for path in ("/ui/", "/api/v1/overview", "/api/v1/parents/echoes.example.com/default/web/would-change"):
            assert (await page._session.post(path)).status == 405


async def test_a_reader_from_elsewhere_sees_what_it_may_read(desk: Desk, operate: Operate, templates: Path) -> None:
    looks = map_template("looks", x="lookup('v1', 'Secret', 'others').metadata.name")
    only(templates, password=SECRET, plain=map_template("plain", x="spec.replicas"), looks=looks)
    rules: Rules = [
        {"apiGroups": ["example.com"], "resources": ["echoes"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]
    token = await new_account(desk, "reader", ["/ui/*"], rules)
    parent = f"parents/{ECHOES}/{desk.namespace}/web"
    async with viewing(operate, token, EVERYWHERE) as page:
        await desk.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "others"}})
        await desk.apply_until_ready(echo("web"))
        # It may get this parent, and not list those of all namespaces.
        assert (await page.json("overview"))["folders"] == {}
        assert "echoes.example.com" in await page.json(f"folders/{ECHOES}", 403)
        assert len((await page.json(parent))["order"]) == 3
        (other,) = (await page.json(f"{parent}/edges"))["objects"].values()
        assert (other["name"], other["message"], "state" in other) == ("others", "you may not get it", False)
        assert await page.json(f"{parent}/manifest?child=/ConfigMap/{desk.namespace}/web-plain")
        for secret in (f"/Secret/{desk.namespace}/web-password", f"/Secret/{desk.namespace}/others"):
            for path in ("manifest", "details", "would-change"):
                assert "secrets" in await page.json(f"{parent}/{path}?child={secret}", 403)
        would = await page.json(f"{parent}/would-change")
        assert {each["kind"] for each in would["objects"]} == {"ConfigMap"}
        assert would["notes"] == ["objects of these kinds are not shown, because you may not get them: Secret"]
        assert (await page.json(f"{parent}/details"))["notes"] == [
            "Events are not shown, because you may not list them"
        ]
        assert "list" in await page.json(f"folders/{ECHOES}/rollout", 403)
        (note,) = (await page.json(f"{parent}/rendered?file={ECHOES}/password.yaml.j2"))["notes"]
        assert note == "a Secret is not shown, because you may not get it"
    async with viewing(operate, "", EVERYWHERE) as page:
        assert (await page.open("/ui/")).status == 401
        assert (await page.open("/api/v1/overview")).status == 401


def suspended(parent: dict[str, Any]) -> dict[str, Any]:
    """The parent, whose changes are not applied."""
    return {**parent, "metadata": {**parent["metadata"], "annotations": {"ssa-operator.dev/suspend": "true"}}}


def is_suspended(body: Mapping[str, Any]) -> bool:
    """Whether the operator says of a parent that it is suspended."""
    return any(each["type"] == "Suspended" for each in body["status"]["conditions"])


async def test_a_dry_run_shows_what_an_apply_would_change(desk: Desk, operate: Operate, templates: Path) -> None:
    pool = map_template("{{ spec.replicas }}", x="spec.replicas")
    plain_map = map_template("plain", x="spec.replicas")
    only(templates, password=SECRET, reader=READS_SECRET, plain=plain_map, pool=pool)
    async with viewing(operate) as page:
        await desk.apply_until_ready(echo("web"))
        address = f"parents/{ECHOES}/{desk.namespace}/web/would-change"
        plain, secret = f"/ConfigMap/{desk.namespace}/web-plain", f"/Secret/{desk.namespace}/web-password"
        (only_child,) = (await page.json(f"{address}?child={plain}"))["objects"]
        assert only_child["result"] == "unchanged"
        now = await page.json(address)
        assert {each["result"] for each in now["objects"]} == {"unchanged"}
        await desk.apply(suspended(echo("web", 5)))
        await desk.until(ECHOES, "web", is_suspended)
        found = await page.json(address)
        assert {each["name"]: each["result"] for each in found["objects"]} == {
            "web-password": "unchanged",
            "web-reader": "unchanged",
            "web-plain": "configured",
            "web-5": "created",
            "web-1": "pruned",
        }
        (field,) = next(each for each in found["objects"] if each["name"] == "web-plain")["fields"]
        assert (field["field"], field["after"], field["file"]) == ("data.x", "5", f"{ECHOES}/plain.yaml.j2")
        # Nothing of it is stored.
        assert (await desk.read("configmaps", "web-plain"))["data"] == {"x": "1"}
        password = base64.b64decode((await desk.read("secrets", "web-password"))["data"]["password"]).decode()
        assert password not in json.dumps([now, found, await page.json(f"{address}?child={secret}")])


PARTS = ("manifest", "details", "would-change")


async def test_details_and_timelines_say_what_happened_and_why(desk: Desk, operate: Operate, templates: Path) -> None:
    plain = map_template("plain", x="spec.replicas")
    rule = plain.replace(
        "metadata:\n", "metadata:\n  annotations:\n    ssa-operator.dev/ready-when: data.y == '1'\n", 1
    )
    only(templates, password=SECRET, plain=plain, rule=rule.replace("-plain", "-rule"))
    async with viewing(operate) as page:
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", lambda body: body.get("status"))
        parent = f"parents/{ECHOES}/{desk.namespace}/web"
        child = f"/ConfigMap/{desk.namespace}/web-plain"
        async with page.stream(parent) as values:
            async for value in values:
                if any(each["kind"] == "reconcile" and each.get("did") for each in value["timeline"].values()):
                    break
            await desk.patch("configmap", "web-plain", data={"x": "7", "z": "hidden value"})
            async for value in values:
                entries = [*value["timeline"].values()]
                changes = [each for each in entries if each["kind"] == "change"]
                reverts = [each for each in entries if "child" in each.get("causes", ()) and each.get("did")]
                if changes and reverts:
                    break
            assert all("child" in each for each in changes), entries
            assert (changes[0]["manager"], changes[0]["object"], changes[0]["child"]) == (
                "kubectl-patch",
                "ConfigMap web-plain",
                child,
            )
            assert set(changes[0]["fields"]) == {"data.x", "data.z"}
            assert reverts[0]["did"][0]["result"] == "configured"
            assert "hidden value" not in json.dumps(entries)
            await desk.delete("configmap", "web-plain")
            async for value in values:
                if any(each.get("deleted") and each["child"] == child for each in value["timeline"].values()):
                    break
        assert "no template folder" in await page.json("folders/other/rollout", 404)
        details = await page.json(f"{parent}/details?child=/ConfigMap/{desk.namespace}/web-rule")
        assert details["readiness"]["state"] == "InProgress"
        assert details["readiness"]["rule"] == "ready-when data.y == '1'"
        assert (await page.json(f"{parent}/details?child={child}"))["readiness"]["rule"] == "it exists"
        own = await page.json(f"{parent}/details")
        assert {each["type"] for each in own["conditions"]} >= {"Ready"}
        assert any("web-rule" in each["note"] for each in own["events"])
        assert own["notes"] == []
        assert "below this parent" in await page.json(f"{parent}/details?child=/ConfigMap/kube-system/other", 404)


CHOICE = """\
{% import "_names.j2" as names %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ names.child(name) }}
data:
  replicas: "{{ spec.replicas }}"
{% if spec.replicas > 4 %}
  large: "{{ spec.nosuch.field }}"
{% endif %}
"""

NAMES = """\
{% macro child(name) %}{{ name }}-choice{% endmacro %}
"""


async def test_a_file_is_rendered_for_one_parent(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, choice=CHOICE, plain=map_template("plain", x="spec.replicas"))
    (templates / ECHOES / "_names.j2").write_text(NAMES)
    async with viewing(operate) as page:
        await desk.apply_until_ready(echo("one"))
        file = f"{ECHOES}/choice.yaml.j2"
        address = f"parents/{ECHOES}/{desk.namespace}/one/rendered?file="
        rendered = await page.json(address + file)
        (document,) = rendered["documents"]
        assert (document["kind"], document["name"], document["line"]) == ("ConfigMap", "one-choice", 2)
        lines = {each["text"].strip(): each.get("line") for each in document["lines"]}
        assert lines['replicas: "1"'] == 7
        await desk.apply(echo("one", 5))
        await desk.until(ECHOES, "one", lambda body: "nosuch" in json.dumps(body["status"]))
        rendered = await page.json(address + file)
        assert [(each["line"], "nosuch" in each["message"]) for each in rendered["problems"]] == [(9, True)]
        assert rendered["documents"] == []
        assert (await page.json(f"{address}{ECHOES}/plain.yaml.j2"))["elsewhere"] == 1
        assert "has to be FOLDER/FILE" in await page.json(f"{address}../secret", 404)
