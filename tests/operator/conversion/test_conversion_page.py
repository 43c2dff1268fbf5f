"""The example of docs/schema.md converts, fails and is checked as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import ConversionError
from ssa_operator.operator.stored_objects import plan_conversions
from tests.docs.blocks.pages import Block, blocks
from tests.operator.conversion.sites import SITES, site, sites
from tests.operator.harness import map_template
from tests.tools.checks.test_conversion_rules import check

PAGE = "docs/schema.md"

_, *_FILES = (block for block in blocks(PAGE) if block.language == "yaml")
READ = (*_FILES, *(block for block in blocks(PAGE) if block.language == "text"))
"""The blocks of pages that these tests read."""


def shown(words: str) -> Block:
    """The block of the page with these words."""
    (block,) = (block for block in READ if words in block.text)
    return block


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """The files of the page."""
    for block in READ:
        if block.language == "yaml":
            (path,) = re.findall(r"`(templates/\S+)`", block.before)
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(block.text)
    (tmp_path / "templates" / SITES / "map.yaml.j2").write_text(map_template("a", image="spec.image"))
    return tmp_path / "templates"


def change(templates: Path, before: str, after: str, way: str = "v1-to-v1alpha1") -> None:
    """Change a conversion."""
    path = templates / SITES / f"_convert/{way}.yaml.j2"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_the_example_of_the_page_converts_there_and_back(templates: Path) -> None:
    converter = sites(templates)
    spec = {"image": "nginx", "count": 2, "size": "large"}
    written = converter.convert(site("v1alpha1", spec), "v1")
    assert written["spec"] == {"image": "nginx", "replicas": {"min": 2}}
    written["spec"]["replicas"]["max"] = 5
    read = converter.convert(written, "v1alpha1")
    assert read["spec"] == spec
    assert converter.convert(read, "v1")["spec"] == written["spec"]


def test_the_page_shows_the_findings_about_a_field_that_is_lost(templates: Path) -> None:
    change(templates, "  count: {{ spec.replicas.min }}\n", "")
    assert check(templates) == [shown("lossy-conversion:").text.strip().removeprefix("templates/")]
    live = LiveObject.of(site("v1alpha1", {"image": "nginx", "count": 2}, namespace="default", resourceVersion="1"))
    (lossy,) = plan_conversions(live, sites(templates), "v1alpha1").lossy
    assert f"lossy  {lossy.resource} {lossy}" in shown("$ ssa-operator crds plan").text.splitlines()


def test_the_page_shows_why_an_object_is_not_converted(templates: Path) -> None:
    change(templates, "spec.count", "spec.coumt", "v1alpha1-to-v1")
    with pytest.raises(ConversionError) as failed:
        sites(templates).convert_or_mark(site("v1alpha1", {"image": "nginx", "count": 2}, namespace="default"), "v1")
    message = f"Kind=Site failed: Site default/web: {failed.value}\n"
    assert message in shown("kubectl apply -f web.yaml\n").text
