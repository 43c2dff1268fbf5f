"""The pages that people read: their links lead somewhere, their words are spelled, and what they quote is true."""

from __future__ import annotations

import functools
import html
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from docs.generate.site import sources
from tests.docs.blocks.readers import HOLE, source_texts
from tests.packaging.checkout import ROOT, files

PAGES = sorted(ROOT / source for source in sources() if source.endswith(".md"))


@functools.cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


@functools.cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    parsed = tokens(page)
    for at, token in enumerate(parsed):
        if token.type == "heading_open":
            text = "".join(each.content for each in parsed[at + 1].children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    return {f"{slug}-{at}" if at else slug for slug, last in found.items() for at in range(last + 1)}


def links(page: Path) -> list[str]:
    inline = [child for token in tokens(page) for child in token.children or ()]
    targets = [str(child.attrs.get("href") or child.attrs.get("src") or "") for child in inline]
    return [unquote(target) for target in targets if target and not re.match(r"\w+:", target)]


def leads_nowhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert [link for link in links(page) if leads_nowhere(page, link)] == []


def test_a_link_to_a_heading_that_does_not_exist_leads_nowhere() -> None:
    page = ROOT / "docs" / "troubleshooting.md"
    assert len(links(page)) > 10
    assert not leads_nowhere(page, "deletion.md#deleting-a-parent")
    assert leads_nowhere(page, "deletion.md#deleting-a-parent-1")


def test_the_page_of_all_pages_leads_to_each_page_of_its_folder() -> None:
    index = ROOT / "docs" / "README.md"
    assert {page.name for page in index.parent.glob("*.md")} - {index.name} - set(links(index)) == set()


def test_every_page_is_spelled_as_in_the_dictionary() -> None:
    # The words that are right nevertheless are in pyproject.toml.
    texts = [*PAGES, *(path for path in files() if path.suffix == ".py" and "ssa_operator" in path.parts)]
    found = subprocess.run(
        [sys.executable, "-m", "codespell_lib", *texts], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.returncode) == ("", 0)


def test_each_message_of_the_page_of_troubleshooting_is_one_of_the_operator() -> None:
    # tests/cli/write/test_mistakes.py makes the mistakes before.
    _, page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8").split("\n## Nothing happens\n")
    quoted = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(quoted) > 20
    assert [each for each in quoted if not any(each.replace("…", HOLE) in text for text in source_texts())] == []


def test_the_figures_about_sizing_are_those_that_were_measured() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    measured = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    figures = re.findall(r"(?<![\d.])([\d.]+) (MiB|KiB|ms|s)\b", page)
    assert len(figures) > 2
    # Tables of milliseconds have the unit in their heading.
    cells = {cell.strip() for line in measured.splitlines() for cell in line.split("|")}
    wrong = [
        f"{figure} {unit}"
        for figure, unit in figures
        if not (re.search(rf"(?<![\d.]){re.escape(figure)} {unit}\b", measured) or (unit == "ms" and figure in cells))
    ]
    assert wrong == []


@pytest.mark.parametrize("source", sorted((ROOT / "docs" / "diagrams").glob("*.dot")), ids=lambda path: path.stem)
def test_a_diagram_shows_each_label_of_its_source(source: Path) -> None:
    labels = [line for text in re.findall(r'label="([^"]+)"', source.read_text()) for line in text.split(r"\n")]
    assert len(labels) > 10
    image = html.unescape(source.with_suffix(".svg").read_text())
    assert [label for label in labels if f">{label}<" not in image] == [], "run `python -m docs.generate diagrams`"


def test_the_page_of_operation_says_what_to_do_about_each_alert() -> None:
    groups = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text())["groups"]
    alerts = [rule["alert"] for group in groups for rule in group["rules"]]
    assert re.findall(r"^### `(\w+)`$", (ROOT / "docs" / "operation.md").read_text(), re.MULTILINE) == alerts
    runbooks = [rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"]]
    assert runbooks == [f"docs/operation.md#{alert.lower()}" for alert in alerts]
