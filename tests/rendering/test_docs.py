"""The examples of docs/templates.md render what the page shows.

A `jinja` block is a template, or the part of one below its head; the block that follows it is what it renders, or the
text of its error or wait. The first block is the parent, and the one that begins with `objects:` is in the cluster.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.status.own_status import own_status
from ssa_operator.rendering.jinja.folder_files import FolderFiles
from ssa_operator.rendering.jinja.templates import Surroundings, Templates
from ssa_operator.rendering.render import render, render_status
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import SlotValues
from tests.rendering.template_files import FOLDER, HEAD, FakeClusterView, live, manifest, templates

PAGE = Path(__file__).parent.parent.parent / "docs" / "templates.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
EXAMPLES = [(text, BLOCKS[at + 1]) for at, (kind, text) in enumerate(BLOCKS) if kind == "jinja"]


def read(text: str) -> Any:
    (node,) = parse(StaticText(text, PAGE.name))
    return node.build(SlotValues())


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 7


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_renders_what_the_page_shows(number: int) -> None:
    template, (kind, expected) = EXAMPLES[number]
    head = re.sub("metadata:.*", "", HEAD, flags=re.DOTALL) + "metadata: {name: c}\n\n"
    if template.startswith("metadata:"):
        template = template.replace("metadata:\n", "metadata:\n  name: c\n")
        head = head.partition("metadata:")[0]
    if "stringData:" in template:
        head = head.replace("ConfigMap", "Secret")
    files = {"example.yaml.j2": head + template, "service.yaml": manifest("Service", "hello")}
    (objects,) = (read(text)["objects"] for _, text in BLOCKS if text.startswith("objects:"))
    secret = live("Secret", "c", metadata={"namespace": "default"}, data={"password": "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5"})
    (values,) = (read(text)["values"] for _, text in BLOCKS if text.startswith("values:"))
    around = Surroundings(values=values, files=FolderFiles({"nginx.conf": b"listen {{ port }};\n"}))
    named = {f"{FOLDER}/{name}": text for name, text in files.items()}
    result = render(
        Templates(FOLDER, named, "digest", around), read(BLOCKS[0][1]), FakeClusterView(children=(*objects, secret))
    )
    if kind == "text":
        waits = [f"{wait.location}: {wait}" for wait in result.waits]
        assert [*map(str, result.problems), *waits] == [expected.strip()]
        return
    assert (result.problems, result.waits) == ((), ())
    document, _ = result.documents
    body = {key: value for key, value in document.body.items() if key not in ("apiVersion", "kind")}
    del body["metadata"]["name"]
    assert {key: value for key, value in body.items() if value != {}} == read(expected)


def test_the_conditions_of_the_page_are_conditions() -> None:
    (text,) = (text for kind, text in BLOCKS if kind == "yaml" and text.startswith("conditions:"))
    ready = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"}
    database = live("StatefulSet", "hello", api_version="apps/v1", spec={"replicas": 1}, status=ready)
    files = {"_status.yaml.j2": text, "database.yaml": manifest("StatefulSet", "hello")}
    body = read(BLOCKS[0][1])
    rendered = render_status(templates(files), body, FakeClusterView(children=(database,)))
    found = own_status(LiveObject.of(body), rendered)
    assert (rendered.problems, found.dropped) == ((), ())
    assert found.conditions == (
        {"type": "DatabaseAvailable", "status": "True", "reason": "PodsReady", "message": "1 pods are ready"},
    )
