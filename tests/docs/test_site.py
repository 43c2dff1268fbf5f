"""The documentation site has every page once, works without the internet, and shows what GitHub shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from docs.generate.site import sources, with_links_of_the_site, write
from tests.packaging.checkout import ROOT
from tests.packaging.wheels import offline_pip

REPOSITORY = "https://git.example/ssa"


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without the functions that it names."""


_Loader.add_multi_constructor("", lambda *_: None)


def pages_of_the_navigation(part: object) -> list[str]:
    if isinstance(part, str):
        return [part]
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
    return [page for each in parts for page in pages_of_the_navigation(each)]


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = yaml.load((ROOT / "mkdocs.yml").read_text(), _Loader)["nav"]
    assert [name for entry in navigation for name in entry] == [
        "Home",
        "Tutorial",
        "How-to",
        "Reference",
        "Explanation",
    ]
    pages = [path for path in sources().values() if path.endswith(".md")]
    assert sorted(pages_of_the_navigation(navigation)) == sorted(pages)


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("docs/echo.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/echo.md", "[a](../README.md#more)", "[a](index.md#more)"),
        ("docs/echo.md", "[a](templates.md#files) [b](#c)", "[a](templates.md#files) [b](#c)"),
        ("docs/echo.md", "[a](../SECURITY.md)", "[a](security.md)"),
        ("docs/echo.md", "[a](../examples)", "[a](examples/README.md)"),
        ("docs/echo.md", "[a](../deploy/monitoring)", f"[a]({REPOSITORY}/tree/main/deploy/monitoring)"),
        ("docs/echo.md", "[a](../Makefile)", f"[a]({REPOSITORY}/blob/main/Makefile)"),
        ("docs/reference/README.md", "[a](../commands/run.md)", "[a](../commands/run.md)"),
        ("README.md", "[a](docs/echo.md)", "[a](echo.md)"),
        ("README.md", "[a](docs/README.md)", "[a](pages.md)"),
        ("README.md", '<img src="docs/diagrams/reconcile.svg">', '<img src="diagrams/reconcile.svg">'),
        ("README.md", "[a](https://example.com/b)", "[a](https://example.com/b)"),
        ("examples/blue-green/README.md", "[a](../../docs/once.md)", "[a](../../once.md)"),
        ("docs/echo.md", "```\n[a](../README.md)\n```\n", "```\n[a](../README.md)\n```\n"),
    ],
)
def test_a_link_of_github_is_a_link_of_the_site(source: str, text: str, expected: str) -> None:
    assert with_links_of_the_site(text, source, REPOSITORY) == expected


def test_pages_that_are_gone_leave_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "former.md").write_text("a")
    write(folder, REPOSITORY)
    assert sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*")) == sorted(sources().values())


class _Html(HTMLParser):
    """What a built page loads, and how often its article has each element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.elements: Counter[str] = Counter()
        self._in_article = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag != "a" and values.get("rel") != "canonical":
            self.loads += [value for name in ("src", "href", "srcset") if (value := values.get(name))]
        self._in_article = self._in_article or tag == "article"
        if self._in_article:
            self.elements[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        self._in_article = self._in_article and tag != "article"


@pytest.fixture(scope="module")
def site() -> Path:
    """The site as `make site` builds it; a warning fails the build."""
    environment = os.environ | offline_pip("site.txt")
    done = subprocess.run(["make", "site"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "build" / "html"


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_reader_without_the_internet_sees_the_whole_site_and_can_search_it(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > len(sources()) / 2
    external = re.compile(r"(?:https?:)?//")
    loads = {(page.name, load) for page in pages for load in _Html(page.read_text()).loads if external.match(load)}
    assert loads == set()
    styles = [path.read_text() for path in site.rglob("*.css")]
    assert styles
    assert [style for style in styles if re.search(r"@import|url\(['\"]?(?:https?:)?//", style)] == []
    assert "reconcile" in (site / "search" / "search_index.json").read_text()


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", sorted(page for page in sources().values() if page.endswith(".md")))
def test_the_site_shows_the_lists_code_and_tables_that_github_shows(site: Path, path: str) -> None:
    """GitHub and MkDocs read Markdown by different rules: of lists in lists, for example."""
    text = (ROOT / "build" / "pages" / path).read_text()
    expected = _Html(f"<article>{MarkdownIt('commonmark').enable('table').render(text)}</article>").elements
    html = Path(re.sub(r"README\.html$", "index.html", path.removesuffix(".md") + ".html"))
    shown = _Html((site / html).read_text()).elements
    names = ("h1", "h2", "h3", "li", "pre", "table", "td", "img")
    assert {name: shown[name] for name in names} == {name: expected[name] for name in names}
