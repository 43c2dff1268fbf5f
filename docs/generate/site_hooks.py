"""Hooks of MkDocs, which change the HTML of each page of the documentation site.

Promises:
- The button beside a console block copies the commands that a reader types, without prompts and output. A block without
  a prompt is copied whole.
- Each cell of a table has the heading of its column as an attribute, which a phone shows beside it.
- In a table, a line breaks beside a short word of code, and within a long one only after punctuation.
"""

from __future__ import annotations

import re
from html import escape, unescape

_BLOCK = re.compile(r'<div class="language-console highlight">(.*?)</div>', re.DOTALL)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_HEADING = re.compile(r"<th[ >].*?</th>", re.DOTALL)
_DATA = re.compile(r"<td(?=[ >])")
_CELL = re.compile(r"<t[dh][ >].*?</t[dh]>", re.DOTALL)
_CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
_TAG = re.compile(r"<[^>]+>")

_LONG = 18
"""Characters up to which a word of code stays on one line. A table of five columns has room for that on a desktop."""

_PUNCTUATION = re.compile(r"(?<=\w)([/_.:=,|-])(?=[\w&\[{(<])")


def on_page_content(html: str, **_: object) -> str:  # the names of the arguments are those of MkDocs
    """The page's HTML with the promises above. The theme copies an attribute `data-copy` instead of the text in it."""
    shown = _CELL.sub(lambda cell: _CODE.sub(_in_words, cell[0]), _BLOCK.sub(_with_commands, html))
    return _TABLE.sub(_with_headings, shown)


def _with_commands(block: re.Match[str]) -> str:
    lines = unescape(_TAG.sub("", block[1])).splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    if not commands:
        return block[0]
    # A line break within an attribute stays one if it is written as a reference.
    text = escape("\n".join(commands)).replace("\n", "&#10;")
    return block[0].replace("<div ", f'<div data-copy="{text}" ', 1)


def _with_headings(table: re.Match[str]) -> str:
    headings = [" ".join(_TAG.sub("", each).split()) for each in _HEADING.findall(table[0])]

    def labelled(row: re.Match[str]) -> str:
        columns = iter(headings)
        return _DATA.sub(lambda cell: f'{cell[0]} data-label="{escape(unescape(next(columns, "")))}"', row[0])

    return _ROW.sub(labelled, table[0])


def _in_words(code: re.Match[str]) -> str:
    return " ".join(_word(each) for each in code[0].split(" "))


def _word(word: str) -> str:
    if len(unescape(word)) <= _LONG:
        return f'<span class="word">{word}</span>'
    return _PUNCTUATION.sub(r"\1<wbr>", word)
