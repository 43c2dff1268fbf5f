"""The documentation site has every page once, works without the internet, and shows what GitHub shows."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from markdown_it import MarkdownIt

from docs.generate import reference_pages
from docs.generate.site import sources, with_links_of_the_site, write
from docs.generate.site_hooks import on_page_content
from docs.generate.transcripts import commands
from tests.docs.browser import BROWSER, measured
from tests.docs.contrast import color, contrast, properties
from tests.docs.test_pages import anchors
from tests.packaging.checkout import ROOT

REPOSITORY = "https://git.example/ssa"


class _Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without the functions that it names."""


_Loader.add_multi_constructor("", lambda *_: None)


def pages_of_the_navigation(part: object) -> list[str]:
    if isinstance(part, str):
        return [part]
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list) else []
    return [page for each in parts for page in pages_of_the_navigation(each)]


SETTINGS = yaml.load((ROOT / "docs" / "mkdocs.yml").read_text(), _Loader)
PAGES = sorted(page for page in pages_of_the_navigation(SETTINGS["nav"]) if page.endswith(".md"))


def test_every_page_is_in_the_navigation_once() -> None:
    assert [name for entry in SETTINGS["nav"] for name in entry] == [
        "Home",
        "Get started",
        "How-to",
        "Reference",
        "Explanation",
        "Repository",
    ]
    assert sorted(page for page in [*sources().values(), *reference_pages.pages()] if page.endswith(".md")) == PAGES


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("docs/tutorial.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/tutorial.md", "[a](../README.md#more)", "[a](index.md#more)"),
        ("docs/tutorial.md", "[a](templates.md#files) [b](#c)", "[a](templates.md#files) [b](#c)"),
        ("docs/tutorial.md", "[a](../SECURITY.md)", "[a](security.md)"),
        ("docs/tutorial.md", "[a](../examples)", "[a](examples/README.md)"),
        ("docs/tutorial.md", "[a](../deploy/monitoring)", f"[a]({REPOSITORY}/tree/main/deploy/monitoring)"),
        ("docs/tutorial.md", "[a](../Makefile)", f"[a]({REPOSITORY}/blob/main/Makefile)"),
        ("README.md", "[a](docs/tutorial.md)", "[a](tutorial.md)"),
        ("README.md", "[a](docs/README.md)", "[a](pages.md)"),
        ("README.md", '<img src="docs/diagrams/architecture.svg">', '<img src="diagrams/architecture.svg">'),
        ("README.md", "[a](https://example.com/b)", "[a](https://example.com/b)"),
        ("examples/blue-green/README.md", "[a](../../docs/templates.md)", "[a](../../templates.md)"),
        ("docs/tutorial.md", "```\n[a](../README.md)\n```\n", "```\n[a](../README.md)\n```\n"),
        ("docs/tutorial.md", r"| `<a\|b\|c>` | a \| b |", r"| `<a|b|c>` | a \| b |"),
        ("docs/tutorial.md", r"`a \| b`", r"`a \| b`"),
    ],
)
def test_a_line_of_github_is_a_line_of_the_site(source: str, text: str, expected: str) -> None:
    assert with_links_of_the_site(text, source, REPOSITORY) == expected


def test_pages_that_are_gone_leave_nothing_behind_and_their_addresses_lead_to_a_heading(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "former.md").write_text("a")
    write(folder, REPOSITORY)
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    assert written == {*sources().values(), *reference_pages.pages()}
    (moved,) = [each["redirects"]["redirect_maps"] for each in SETTINGS["plugins"] if "redirects" in each]
    assert len(moved) > 50
    assert moved.keys() & written == set()
    assert {target.partition("#")[0] for target in moved.values()} - written == set()
    headings = {page: anchors(folder / page) for page in PAGES}
    targets = [target.split("#") for target in moved.values() if "#" in target]
    assert [f"{page}#{heading}" for page, heading in targets if heading not in headings[page]] == []


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
    done = subprocess.run(["make", "site"], cwd=ROOT, capture_output=True, text=True, check=False)
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
@pytest.mark.parametrize("path", PAGES)
def test_the_site_shows_the_lists_code_and_tables_that_github_shows(site: Path, path: str) -> None:
    """GitHub and MkDocs read Markdown by different rules: of lists in lists, for example."""
    text = (ROOT / "build" / "pages" / path).read_text()
    expected = _Html(f"<article>{MarkdownIt('commonmark').enable('table').render(text)}</article>").elements
    html = Path(re.sub(r"README\.html$", "index.html", path.removesuffix(".md") + ".html"))
    shown = _Html((site / html).read_text()).elements
    names = ("h1", "h2", "h3", "li", "pre", "table", "td", "img")
    assert {name: shown[name] for name in names} == {name: expected[name] for name in names}


class _Article(HTMLParser):
    """The tables, links and code blocks of a built page, as a reader sees them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.heads: list[list[str]] = []
        """The cells of the header row of each table."""
        self.code_in_tables = ""
        self.links: list[str] = []
        """The text of each link that leads to a page or a file."""
        self.blocks: list[str] = []
        self.copied: list[str] = []
        """What the copy button of each block with commands copies."""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "thead":
            self.heads.append([])
        elif tag == "th":
            self.heads[-1].append("")
        elif tag == "a" and "headerlink" not in (values.get("class") or ""):
            self.links.append("")
        elif tag == "pre":
            self.blocks.append("")
        if (copied := values.get("data-copy")) is not None:
            self.copied.append(copied)
        if tag in ("article", "th", "table", "code", "a", "pre"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        if "article" not in self._open:
            return
        if "th" in self._open:
            self.heads[-1][-1] += data
        if "pre" in self._open:
            self.blocks[-1] += data
        elif {"table", "code"} <= set(self._open):
            self.code_in_tables += data
        if "a" in self._open and self.links:
            self.links[-1] += data


def html_of(page: str) -> str:
    """The path of a built page."""
    return re.sub(r"README\.html$", "index.html", page.removesuffix(".md") + ".html")


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", PAGES)
def test_a_page_reads_well(site: Path, path: str) -> None:
    """No backslash of the source in a table, no empty header row, no file's name as a link, no example twice."""
    article = _Article((site / html_of(path)).read_text())
    assert "\\|" not in article.code_in_tables
    assert [cells for cells in article.heads if not any(cell.strip() for cell in cells)] == []
    assert [text for text in article.links if re.fullmatch(r"\S+\.md", text)] == []
    if path.startswith("commands/"):
        assert [block for block, times in Counter(article.blocks).items() if times > 1] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", PAGES)
def test_the_copy_button_copies_the_commands_of_a_page_without_prompts_and_output(site: Path, path: str) -> None:
    typed = [each.text for each in commands(ROOT / "build" / "pages" / path)]
    assert [
        line for copied in _Article((site / html_of(path)).read_text()).copied for line in copied.splitlines()
    ] == typed


def test_the_style_leaves_room_for_the_copy_button_and_darkens_white_pictures() -> None:
    style = re.sub(r"/\*.*?\*/", "", (ROOT / "docs" / "site.css").read_text(), flags=re.DOTALL)
    rules = {" ".join(names.split()): body for names, body in re.findall(r"([^{}]+)\{([^{}]*)\}", style)}
    assert "margin-right: 2.2rem" in rules[".md-typeset .highlight > pre > code"]
    assert "pre-wrap" in rules[".md-typeset .language-sh > pre > code"]
    assert "word-break: normal" in rules[".md-typeset td code, .md-typeset th code"]
    assert "nowrap" in rules[".md-typeset .word"]
    pictures = {
        path.name
        for path in (ROOT / "docs").rglob("*.svg")
        if '<polygon fill="white" stroke="none"' in path.read_text()
    }
    assert pictures == {path.name for path in (ROOT / "docs" / "diagrams").glob("*.svg")}
    assert "invert" in rules['[data-md-color-scheme="slate"] img[src*="diagrams/"]']


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_the_colours_of_texts_and_code_have_enough_contrast(site: Path, scheme: str) -> None:
    sheets = [*sorted((site / "assets" / "stylesheets").glob("*.css")), site / "site.css"]
    selected = f"[data-md-color-scheme={scheme}]"
    indigo = "[data-md-color-primary=indigo]"
    values = properties("".join(each.read_text() for each in sheets), [":root", indigo, selected, selected + indigo])
    on_code = [name for name in values if re.fullmatch(r"--md-code-(fg|hl-\w+)-color", name)]
    assert len(on_code) > 10
    pairs = [(name, "--md-code-bg-color") for name in [*on_code, "--md-typeset-a-color"]]
    pairs += [(name, "--md-default-bg-color") for name in ("--md-typeset-color", "--md-typeset-a-color")]
    ratios = {pair: contrast(color(pair[0], values), color(pair[1], values)) for pair in pairs}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.exhaustive
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
def test_a_browser_cuts_and_covers_nothing_in_light_dark_and_on_a_phone(site: Path) -> None:
    found = measured(site, [f"/{html_of(path)}" for path in PAGES])
    assert len(found) == len(PAGES)
    assert [(page, part, each) for page, parts in found.items() for part, all_ in parts.items() for each in all_] == []


@pytest.mark.exhaustive
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")
def test_the_browser_sees_what_is_wrong_with_a_page_without_the_sites_style(site: Path, tmp_path: Path) -> None:
    copy = tmp_path / "html"
    shutil.copytree(site, copy)
    (copy / "site.css").write_text("")
    (found,) = measured(copy, ["/architecture.html"]).values()
    assert [each for each in found["slate"] if "diagrams/architecture.svg" in each and "bright in the dark" in each]
    (found,) = measured(copy, ["/tutorial.html"]).values()
    assert [each for each in (*found["wide"], *found["phone"]) if "under the copy button" in each]
    (found,) = measured(copy, ["/commands/run.html"]).values()
    assert [each for each in found["phone"] if each.startswith("a table is ")]


def block(language: str, code: str) -> str:
    return f'<div class="language-{language} highlight"><pre><span></span><code>{code}</code></pre></div>'


def test_the_copy_button_of_a_session_copies_its_commands() -> None:
    code = '<span class="gp">$ </span>a<i> </i>&lt;b&gt;\n<span class="go">NAME</span>\n$ c &quot;d&quot;\n'
    shown = on_page_content(block("console", code))
    assert shown == block("console", code).replace("<div ", '<div data-copy="a &lt;b&gt;&#10;c &quot;d&quot;" ')


@pytest.mark.parametrize("shown", [block("console", "NAME\n"), block("sh", "$ a\n"), "<p>$ a</p>"])
def test_what_has_no_prompt_is_copied_whole(shown: str) -> None:
    assert on_page_content(shown) == shown


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("devcluster/", '<span class="word">devcluster/</span>'),
        (
            "--from-example &lt;path&gt;",
            '<span class="word">--from-example</span> <span class="word">&lt;path&gt;</span>',
        ),
        ("--operator-namespace", "--operator-<wbr>namespace"),
        ("SSA_OPERATOR_FROM_EXAMPLE", "SSA_<wbr>OPERATOR_<wbr>FROM_<wbr>EXAMPLE"),
        ("&lt;debug|info|warning|error&gt;", "&lt;debug|<wbr>info|<wbr>warning|<wbr>error&gt;"),
    ],
)
def test_code_in_a_table_breaks_between_words(code: str, expected: str) -> None:
    assert on_page_content(f"<td>a <code>{code}</code></td>") == f"<td>a <code>{expected}</code></td>"
    assert on_page_content(f"<p><code>{code}</code></p>") == f"<p><code>{code}</code></p>"


def test_a_cell_of_a_table_has_the_heading_of_its_column() -> None:
    head = "<thead><tr><th>Name</th><th><code>a&amp;b</code> c</th></tr></thead>"
    body = '<tbody>\n<tr>\n<td>x</td>\n<td style="text-align: left;">y</td>\n</tr>\n</tbody>'
    shown = on_page_content(f"<table>{head}{body}</table><p><td>z</td></p>")
    assert '<td data-label="Name">x</td>\n<td data-label="a&amp;b c" style="text-align: left;">y</td>' in shown
    assert "<td>z</td>" in shown
