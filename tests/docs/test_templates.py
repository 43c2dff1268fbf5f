"""The examples of docs/templates.md render what the page shows.

A `jinja` block is a template, or the part of one below its head; a block directly behind it is what it renders, or the
text of its error or wait. The first object is the parent. A row of the table of filters is an example, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from ssa_operator.objects.render_result import ReconcileResult
from ssa_operator.rendering.jinja.folder_files import FolderFiles
from ssa_operator.rendering.jinja.strategic_merge import LIST_KEYS
from ssa_operator.rendering.jinja.templates import Surroundings, Templates
from ssa_operator.rendering.render import render, render_status
from ssa_operator.tools.editor import vocabulary
from tests.docs.blocks.pages import Block, blocks
from tests.packaging.checkout import ROOT
from tests.rendering.template_files import FOLDER, HEAD, FakeClusterView, live, manifest

PAGE = "docs/templates.md"
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
BLOCKS = blocks(PAGE)
PARENT = next(block for block in BLOCKS if block.text.startswith("apiVersion: example.com/"))
VALUES = next(block for block in BLOCKS if "_values.yaml" in block.before)
EXAMPLES = [
    (block, after) for block, after in pairwise(BLOCKS) if block.language == "jinja" and after.before.startswith("```")
]


def rows() -> Iterator[tuple[str, str]]:
    """Each expression in the table of filters, and the result beside it."""
    section = TEXT.partition("\n## Filters and tests\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            _, expressions, results, *_ = re.split(r"(?<!\\)\|", line)
            for expression, result in zip(
                *(re.findall("`(.*?)`", cell) for cell in (expressions, results)), strict=True
            ):
                yield expression.replace(r"\|", "|"), result


ROWS = [*rows()]


READ = {PARENT, VALUES, *(block for example in EXAMPLES for block in example)}
"""The blocks of pages that these tests read."""

POD = {"spec": {"replicas": 1}, "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1}}
LIVE = (
    live("Service", "hello", metadata={"namespace": "default"}, spec={"clusterIP": "10.0.0.7"}),
    live("ConfigMap", "site", metadata={"namespace": "default"}, data={"domain": "example.com"}),
    live("Secret", "c", metadata={"namespace": "default"}, data={"password": "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5"}),
    live("Deployment", "hello", api_version="apps/v1", **POD),
    live("StatefulSet", "hello", api_version="apps/v1", **POD),
)
"""The objects in the cluster."""


def compiled(text: str, name: str = "example.yaml.j2") -> Templates:
    """The folder of a template, with the page's settings and file."""
    around = Surroundings(values=VALUES.value, files=FolderFiles({"nginx.conf": b"listen {{ port }};\n"}))
    companions = {"service.yaml": manifest("Service", "hello")}
    if name == "_status.yaml.j2":
        kinds = ("Deployment", "StatefulSet", "Namespace")
        companions |= {f"{kind}.yaml": manifest(kind, "hello", api_version="apps/v1") for kind in kinds}
    files = {f"{FOLDER}/{file}": content for file, content in {name: text, **companions}.items()}
    return Templates(FOLDER, files, "digest", around)


def in_config_map(text: str) -> str:
    """A part of a manifest in a whole one."""
    head = re.sub("metadata:.*", "", HEAD, flags=re.DOTALL)
    if "stringData:" in text:
        head = head.replace("ConfigMap", "Secret")
    if re.search("^metadata:", text, re.MULTILINE):
        return head + re.sub("^metadata:\n", "metadata:\n  name: c\n", text, flags=re.MULTILINE)
    if text.startswith("{% filter"):
        first, _, rest = text.partition("\n")
        return f"{first}\n{head}metadata: {{name: c}}\n{rest}"
    return f"{head}metadata: {{name: c}}\n\n{text}"


@pytest.mark.parametrize(("template", "expected"), EXAMPLES, ids=str)
def test_an_example_renders_what_the_page_shows(template: Block, expected: Block) -> None:
    view = FakeClusterView(children=LIVE)
    if "result." in template.text:
        result = ReconcileResult(ready=True, reason="Ready", message="")
        status = render_status(compiled(template.text, "_status.yaml.j2"), PARENT.value, view, result=result)
        assert (status.problems, status.fields) == ((), expected.value)
        return
    found = render(compiled(in_config_map(template.text)), PARENT.value, view)
    if expected.language == "text":
        assert list(map(str, found.problems)) == [expected.text.strip()]
        return
    assert (found.problems, found.waits) == ((), ())
    document, _ = found.documents
    body = {key: value for key, value in document.body.items() if key not in ("apiVersion", "kind")}
    del body["metadata"]["name"]
    assert {key: value for key, value in body.items() if value != {}} == expected.value


@pytest.mark.parametrize(("expression", "result"), ROWS)
def test_a_row_of_the_table_of_filters_gives_what_it_shows(expression: str, result: str) -> None:
    text = in_config_map(f"found:\n  {{{{ {expression} }}}}\nshown:\n  {result}\n")
    found = render(compiled(text), PARENT.value, FakeClusterView())
    assert found.problems == ()
    body = found.documents[0].body
    assert body["found"] == body["shown"]


def test_the_page_has_an_example_of_each_filter_and_test() -> None:
    shown = " ".join([*(block.text for block in BLOCKS), *(expression for expression, _ in ROWS)])
    words = [*vocabulary.own_filters(), *vocabulary.own_tests()]
    assert [word for word in words if not re.search(rf"(\||\bis) {word}\b", shown)] == []


def test_the_pages_for_authors_name_each_function_variable_annotation_and_setting() -> None:
    pages = TEXT + (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    words = [*vocabulary.own_functions(), *vocabulary.variables(), *vocabulary.manifest_annotations()]
    words += vocabulary.settings()
    assert [word for word in words if not re.search(rf"`([^`\n]* )?{re.escape(word)}[`(:.]", pages)] == []


def test_the_page_lists_the_lists_that_merge_item_by_item() -> None:
    table = TEXT.partition("| key of an item | lists |")[2].partition("\n\n")[0]
    shown = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[2])}
    assert shown == LIST_KEYS.keys()
