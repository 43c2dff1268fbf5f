"""The examples of docs/templates.md render what the page shows.

A `jinja` block is a template, or the part of one below its head; the block that follows it is what it renders, or the
text of its error or wait. The first block is the parent, and the one that begins with `objects:` is in the cluster.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.reconcile.status.author_status import author_status, undeclared_fields
from ssa_operator.rendering.jinja.folder_files import FolderFiles
from ssa_operator.rendering.jinja.templates import Surroundings, Templates
from ssa_operator.rendering.render import render, render_status
from ssa_operator.schema.crd_schema import status_schema
from tests.docs.blocks.pages import Example, ExamplePage, blocks
from tests.packaging.checkout import ROOT
from tests.rendering.template_files import FOLDER, HEAD, FakeClusterView, live, manifest, templates

PAGE = ExamplePage.read(ROOT / "docs" / "templates.md")
STATUS_TEMPLATES = tuple(
    block for block in blocks(PAGE.page) if block.language == "yaml" and "{{" in block.text and block not in PAGE.blocks
)
"""The templates of the section about the status, which have no result beside them."""
(DROPPED,) = (block for block in blocks(PAGE.page) if "is dropped:" in block.text)

READ = PAGE.blocks | {*STATUS_TEMPLATES, DROPPED}
"""The blocks of pages that these tests read."""


def test_the_page_has_examples() -> None:
    assert len(PAGE.examples) >= 7


@pytest.mark.parametrize("example", PAGE.examples, ids=str)
def test_an_example_renders_what_the_page_shows(example: Example) -> None:
    template, expected = example.template.text, example.result
    head = re.sub("metadata:.*", "", HEAD, flags=re.DOTALL) + "metadata: {name: c}\n\n"
    if template.startswith("metadata:"):
        template = template.replace("metadata:\n", "metadata:\n  name: c\n")
        head = head.partition("metadata:")[0]
    if "stringData:" in template:
        head = head.replace("ConfigMap", "Secret")
    files = {"example.yaml.j2": head + template, "service.yaml": manifest("Service", "hello")}
    secret = live("Secret", "c", metadata={"namespace": "default"}, data={"password": "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5"})
    assert PAGE.values is not None
    around = Surroundings(
        values=PAGE.values.value["values"], files=FolderFiles({"nginx.conf": b"listen {{ port }};\n"})
    )
    named = {f"{FOLDER}/{name}": text for name, text in files.items()}
    view = FakeClusterView(children=(*PAGE.live_objects, secret))
    result = render(Templates(FOLDER, named, "digest", around), PAGE.parent.value, view)
    if expected.language == "text":
        waits = [f"{wait.location}: {wait}" for wait in result.waits]
        assert [*map(str, result.problems), *waits] == [expected.text.strip()]
        return
    assert (result.problems, result.waits) == ((), ())
    document, _ = result.documents
    body = {key: value for key, value in document.body.items() if key not in ("apiVersion", "kind")}
    del body["metadata"]["name"]
    assert {key: value for key, value in body.items() if value != {}} == expected.value


def ready(kind: str, name: str = "hello", **fields: Any) -> dict[str, Any]:
    """A live workload of one replica that is ready."""
    status = {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"}
    return live(kind, name, api_version="apps/v1", spec={"replicas": 1}, status=status, **fields)


def status_of(text: str, *children: dict[str, Any]) -> StatusFields:
    """What a `_status.yaml.j2` renders for these live children, each of which has a manifest."""
    files = {f"{at}.yaml": manifest(body["kind"], body["metadata"]["name"]) for at, body in enumerate(children)}
    view = FakeClusterView(children=children)
    found = render_status(templates({"_status.yaml.j2": text, **files}), PAGE.parent.value, view)
    assert found.problems == ()
    return found


def test_the_conditions_of_the_page_are_conditions() -> None:
    (block,) = (block for block in STATUS_TEMPLATES if block.text.startswith("conditions:"))
    found = author_status(LiveObject.of(PAGE.parent.value), status_of(block.text, ready("StatefulSet")))
    assert found.dropped == ()
    assert found.conditions == (
        {"type": "DatabaseAvailable", "status": "True", "reason": "PodsReady", "message": "1 pods are ready"},
    )


@pytest.mark.parametrize("at", [0, 1])
def test_the_fields_of_the_status_are_those_of_children(at: int) -> None:
    since = "2026-01-31T12:00:00Z"
    address = live("Service", "hello", spec={"clusterIP": "10.0.0.7"})
    leaving = live("Namespace", "hello", metadata={"namespace": "", "deletionTimestamp": since})
    expected = ({"readyReplicas": 1, "address": "10.0.0.7"}, {"deletedAt": since})[at]
    text = STATUS_TEMPLATES[at].text
    assert status_of(text, ready("Deployment"), address, leaving).fields == expected
    assert status_of(
        text, live("Deployment", "hello"), live("Service", "hello"), live("Namespace", "hello")
    ).fields in (
        {"readyReplicas": 0},
        {},
    )


def test_a_field_that_the_crd_lacks_is_dropped_as_the_page_says() -> None:
    rendered = status_of("readyReplicas: 1\nurl: x\n")
    crd = yaml.safe_load((ROOT / "crds" / f"{FOLDER}.yaml").read_text())
    own = author_status(LiveObject.of(PAGE.parent.value), rendered)
    dropped = undeclared_fields(own, rendered, status_schema(crd, "v1"))
    assert [str(each) for each in dropped] == [DROPPED.text.strip()]
