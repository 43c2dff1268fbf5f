"""The HTML of the site is what a reader copies and reads."""

from __future__ import annotations

import pytest

from docs.generate.site_hooks import on_page_content


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
