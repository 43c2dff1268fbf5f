"""Templates that Jinja, Python or YAML choke on: each is a problem with file and line, and the other folders load."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jinja2.lexer import Lexer

from ssa_operator.rendering.folder.loaded_folders import load
from ssa_operator.rendering.jinja.compilation import NODES_LIMIT, TOKENS_LIMIT
from tests.rendering.template_files import HEAD

TOO_DEEP = "nested too deeply"

REFUSED = {
    "parentheses": (f"v: {{{{ {'(' * 5000}1{')' * 5000} }}}}", TOO_DEEP),
    "some parentheses": (f"v: {{{{ {'(' * 90}1{')' * 90} }}}}", TOO_DEEP),
    "lists": (f"v: {{{{ {'[' * 300}1{']' * 300} }}}}", TOO_DEEP),
    "mappings": ("v: {{ " + "{1: " * 300 + "1" + "}" * 300 + " }}", TOO_DEEP),
    "open brackets": ("{" * 100_000, TOO_DEEP),
    "signs": (f"v: {{{{ {'- ' * 300}1 }}}}", TOO_DEEP),
    "many signs": (f"v: {{{{ {'-' * 5000}1 }}}}", TOO_DEEP),
    "negations": (f"v: {{{{ {'not ' * 5000}1 }}}}", TOO_DEEP),
    "sums": (f"v: {{{{ {'1 + ' * 5000}1 }}}}", TOO_DEEP),
    "conditions": (f"v: {{{{ {'1 and ' * 5000}1 }}}}", TOO_DEEP),
    "choices": (f"v: {{{{ {'1 if 1 else ' * 200}1 }}}}", TOO_DEEP),
    "filters": (f"v: {{{{ 1{' | string' * 300} }}}}", TOO_DEEP),
    "fields": (f"v: {{{{ spec{'.a' * 500} }}}}", TOO_DEEP),
    "calls": (f"v: {{{{ spec{'()' * 500} }}}}", TOO_DEEP),
    "loops": ("{% for a in [1] %}" * 30 + "{% endfor %}" * 30, TOO_DEEP),
    "branches": ("{% if 1 %}" * 99 + "{% endif %}" * 99, TOO_DEEP),
    "macros": ("{% macro m() %}" * 100 + "{% endmacro %}" * 100, TOO_DEEP),
    "set blocks": ("{% set a %}" * 2000 + "{% endset %}" * 2000, TOO_DEEP),
    "a decimal number": (f"v: {{{{ {'9' * 5000} }}}}", "too large"),
    "a hexadecimal number": (f"v: {{{{ 0x{'f' * 5000} }}}}", "too large"),
    "many names": ("v: " + "{{ name }}" * 20_001, "more than 20000 names"),
    "many arguments": (f"v: {{{{ dict({', '.join(f'a{n}={n}' for n in range(20_001))}) }}}}", "more than 20000 names"),
    "an argument twice": ("v: {{ dict(a=1, a=2) }}", "the argument a is given twice"),
    "a parameter twice": ("{% macro m(a, a) %}{% endmacro %}", "the argument a is there twice"),
    "a break": ("{% break %}", "{% break %} is outside of a loop"),
    "a continue": ("{% continue %}", "{% continue %} is outside of a loop"),
    "a break of a macro": ("{% for a in b %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "outside of a loop"),
    "a break of a block": ("{% for a in b %}{% block m %}{% break %}{% endblock %}{% endfor %}", "outside of a loop"),
    "a break behind a loop": ("{% for a in b %}{% else %}{% break %}{% endfor %}", "outside of a loop"),
    "a return": ("{% return 1 %}", "{% return %} is outside of a macro"),
    "a return of a block": ("{% block m %}{% return 1 %}{% endblock %}", "outside of a macro"),
    "a return of a call": ("{% macro m() %}{% call m() %}{% return 1 %}{% endcall %}{% endmacro %}", "whose result is"),
    "a return of a recursive loop": (
        "{% macro m() %}{% for a in b recursive %}{% return a %}{% endfor %}{% endmacro %}",
        "in a recursive loop",
    ),
    "a return of nothing": ("{% macro m() %}{% return %}{% endmacro %}", "write {% return none %}"),
    "an open comment": ("{# " * 10_000, "end of comment"),
    "an open raw block": ("{% raw %}" * 10_000, "end of raw"),
    "open expressions": ("v: {{ " * 10_000, "expected token"),
    "open statements": ("{% " * 10_000, "tag name expected"),
    "NUL in an expression": ("v: {{ \0 }}", "unexpected char"),
    "a name of no character": (r'v: {{ "\N{no such character}" }}', "unknown Unicode character name"),
    "a character beyond Unicode": (r'v: {{ "\U99999999" }}', "illegal Unicode character"),
    "a reserved character": ("v: \ue000", "is reserved"),
    "an assignment to null": ("{% set none = 1 %}", "can't assign"),
    "a block twice": ("{% block a %}{% endblock %}{% block a %}{% endblock %}", "defined twice"),
}
"""Templates by what is wrong with them: the text from line 5 on, and words of the problem. A line adds another one."""
if sys.version_info < (3, 12):  # A later Python compiles them.
    REFUSED["alternatives"] = ("{% if 0 %}" + "{% elif 0 %}" * 5000 + "{% endif %}", TOO_DEEP)


@pytest.mark.more_cases
@pytest.mark.parametrize("name", REFUSED)
def test_a_template_that_can_not_be_compiled_is_a_problem_with_its_line(tmp_path: Path, name: str) -> None:
    text, words = REFUSED[name]
    for folder, content in (("bad.example.com", HEAD + text), ("good.example.com", HEAD)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.yaml.j2").write_text(content)
    found = load(tmp_path)
    (problem,) = found.folders["bad.example.com"].problems
    line = 1 if name == "alternatives" else 5
    assert str(problem).startswith(f"bad.example.com/a.yaml.j2:{line}: ")
    assert words in str(problem)
    assert found.folders["good.example.com"].templates is not None


def test_a_template_of_many_words_is_refused_before_all_of_them_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator loads templates while it runs."""
    read, wrap = 0, Lexer.wrap

    def counted(*arguments: Any, **more: Any) -> Iterator[Any]:
        nonlocal read
        for token in wrap(*arguments, **more):
            read += 1
            yield token

    monkeypatch.setattr(Lexer, "wrap", counted)
    folder = tmp_path / "services"
    folder.mkdir()
    (folder / "list.yaml.j2").write_text(f"{HEAD}v: {{{{ [{'1, ' * 300_000}] }}}}")
    problems = load(tmp_path).folders["services"].problems
    assert [f"more than {NODES_LIMIT} names" in str(problem) for problem in problems] == [True]
    assert read <= TOKENS_LIMIT + 10  # what the lexer and the parser read ahead
