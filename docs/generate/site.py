"""`python -m docs.generate.site`: writes the pages of the documentation site into build/pages, for `make site`.

Promises:
- A page is written for GitHub, and its links lead to the same place on the site.
- The README and the other pages outside of docs are pages of the site, too. Nobody copies them.
- A link to anything else in the repository leads to the repository.
- A bar in a table's code is a bar. GitHub needs a backslash before it, and MkDocs shows that.
- The pages that the code says are made at each build. They are not in git, so no page of the repository links to one.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from docs.generate import reference_pages

ROOT = Path(__file__).parents[2]

REPOSITORY = "https://github.com/OWNER/NAME"
"""Where links to the repository lead unless the environment has REPOSITORY_URL."""

_FENCE = re.compile(r"^ *(`{3,}|~{3,})")
_ESCAPED_BAR = re.compile(r"\\\|(?=[^`]*`(?:[^`]*`[^`]*`)*[^`]*$)")
"""An escaped bar with an odd number of backticks behind it, so in code."""

_TARGET = re.compile(r"""(\]\(|\b(?:src|href)=")(?!\w+:|[#/])([^)#"\s]+)""")


def sources() -> dict[str, str]:
    """The files of the site that are in git: path in the repository, path on the site."""
    found = {"README.md": "index.md", "docs/README.md": "pages.md"}
    found |= {f"{name}.md": f"{name.lower()}.md" for name in ("CONTRIBUTING", "SECURITY", "CHANGELOG")}
    patterns = ("examples/**/README.md", "docs/*.md", "docs/*.svg", "docs/*.png", "docs/*.css", "docs/diagrams/*.svg")
    for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        found.setdefault(name, name.removeprefix("docs/"))
    return found


def with_links_of_the_site(text: str, source: str, repository: str) -> str:
    """The text of the page `source` with links that hold on the site. `repository` is an address without a slash at its
    end.
    """
    on_site = sources()
    folder = posixpath.dirname(on_site[source]) or "."

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        page = on_site.get(target) or on_site.get(f"{target}/README.md")
        if page is not None:
            return found[1] + posixpath.relpath(page, folder)
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{found[1]}{repository}/{kind}/main/{target}"

    return _outside_of_code(text, lambda line: _with_bars(_TARGET.sub(link, line)))


def _with_bars(line: str) -> str:
    return _ESCAPED_BAR.sub("|", line) if line.startswith("|") else line


def _outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """The text with every line changed that is not in a fence."""
    lines, fence = [], ""
    for line in text.splitlines(keepends=True):
        marker = _FENCE.match(line)
        if marker and not fence:
            fence = marker[1]
        elif marker and marker[1].startswith(fence):
            fence = ""
        lines.append(line if fence or marker else change(line))
    return "".join(lines)


def write(folder: Path, repository: str) -> None:
    """Write all files of the site into a folder, and remove what was there."""
    shutil.rmtree(folder, ignore_errors=True)
    texts: dict[str, str | bytes] = {
        path: _outside_of_code(text, _with_bars) for path, text in reference_pages.pages().items()
    }
    for source, path in sources().items():
        content = (ROOT / source).read_bytes()
        page = path.endswith(".md")
        texts[path] = with_links_of_the_site(content.decode(), source, repository) if page else content
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())


if __name__ == "__main__":
    write(ROOT / "build" / "pages", os.environ.get("REPOSITORY_URL") or REPOSITORY)
