"""Templates whose single step would take minutes or gigabytes, and a program that renders each in a process of its own.

`python -m tests.rendering.bombs` renders all of them within limits of the kernel, and writes one line of JSON for each:
its name and its problems, or what ended its process.
"""

# ruff: noqa: E501 - a template is one line
from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Mapping
from types import SimpleNamespace

from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.rendering.render import render
from tests.rendering.template_files import HEAD, parent, templates

_LISTS = (
    "{% set n = namespace(l=['x'], m=['x']) %}"
    "{% for i in range(60) %}{% set n.l = [n.l, n.l] %}{% set n.m = [n.m, n.m] %}{% endfor %}"
)
_TUPLES = (
    "{% set n = namespace(l=('x',), m=('x',)) %}"
    "{% for i in range(60) %}{% set n.l = (n.l, n.l) %}{% set n.m = (n.m, n.m) %}{% endfor %}"
)
_MAPPINGS = (
    "{% set n = namespace(l={'a': 'x'}, m={'a': 'x'}) %}{% for i in range(60) %}"
    "{% set n.l = {'a': n.l, 'b': n.l} %}{% set n.m = {'a': n.m, 'b': n.m} %}{% endfor %}"
)
_DEEP = (
    "{% set n = namespace(l=('x',), m=('x',)) %}"
    "{% for i in range(3000) %}{% set n.l = (n.l,) %}{% set n.m = (n.m,) %}{% endfor %}"
)
_ARGUMENTS = (
    "{% set n = namespace(l=('x',)) %}{% macro m() %}{% set n.l = varargs %}{% endmacro %}"
    "{% for i in range(3000) %}{% if m(n.l) %}{% endif %}{% endfor %}"
)
_GENERATORS = (
    "{% set n = namespace(l=['x']) %}{% for i in range(3000) %}{% set n.l = n.l | map('string') %}{% endfor %}"
)
_BITS = "{% set n = namespace(l=('f' * 3000000) | int(0, 16)) %}"
_TEXTS = "{% set n = namespace(l='x') %}{% for i in range(60) %}{% set n.l = n.l ~ n.l %}{% endfor %}"
_BIG = "{% set b = 'a' * 2000000 %}"
_MANY = "{% set b = 'a' * 1000000 %}{% set l = [b] * 100000 %}"
_TEXT = "{% set b = 'a' * 1000000 %}{% set t %}{% for i in range(90000) %}{{ b }}{% endfor %}{% endset %}"
_LINES = "{% set t %}{% for i in range(90000) %}" + "x\n" * 16 + "{% endfor %}{% endset %}"
_BLANKS = "{% set t %}x{% for i in range(90000) %}\n{{ '' }}\n{% endfor %}{% endset %}"


def _each(prelude: str, *expressions: str) -> dict[str, str]:
    return {expression: f"{prelude}v: {{{{ {expression} }}}}" for expression in expressions}


_READS = (
    "n.l", "n.l == n.m", "n.l != n.m", "n.l < n.m", "n.l >= n.m", "n.l in [n.m]", "n.l not in [n.m]", "n.l ~ ''",
    "n.l | string", "n.l | upper", "n.l | length ~ n.l", "[n.l, n.m] | sort", "[n.l, n.m] | unique | list",
    "[n.l, n.m] | min", "[n.l, n.m] | max", "[{'a': n.l}, {'a': n.m}] | groupby('a') | length",
    "[{'a': n.l}, {'a': n.m}] | sort(attribute='a')", "[{'a': n.l}, {'a': n.m}] | unique(attribute='a') | list",
    "[{}, {}] | groupby('a', default=n.l)", "{'a': n.l, 'b': n.m} | dictsort(by='value')", "{(n.l, 1): 2}",
    "(n.l, 1) in {}", "[1].index(n.l)", "[n.m].index(n.l)", "[n.m].count(n.l)", "(n.m,).index(n.l)",
    "(n.m,).count(n.l)", "[n.m] | select('eq', n.l) | list", "n.l is eq(n.m)", "n.l is lt(n.m)", "n.l is ne(n.m)",
    "n.l is in([n.m])", "n.l is lower", "n.l is upper", "[n.m] | select('in', [n.l]) | list",
    "[{'a': n.m}] | selectattr('a', 'eq', n.l) | list", "[n.m] | reject('sameas', 1) | select('in', [n.l]) | list",
    "'%s' % (n.l,)", "'%(a)s' % {'a': n.l}", "'%s' | format(n.l)", "'%r' % (n.l,)", "'{}'.format(n.l)",
    "'{!r}'.format(n.l)", "'{a}'.format_map({'a': n.l})", "[n.l] | join", "[n.l, n.m] | join(n.l)", "n.l | tojson",
    "n.l | to_yaml", "n.l | tojson ~ ''", "n.l | tojson(indent=2) ~ ''", "n.l | sha256", "n.l | md5",
    "n.l | b64encode", "n.l | urlencode", "n.l | escape", "n.l | wordcount", "n.l | replace('x', 'y')",
    "'x' | replace('x', n.l)", "'x' | replace(n.l, 'y')", "n.l | truncate(3)", "n.l | indent(2)",
    "n.l | trim", "n.l | title", "n.l | k8s_name",
    "n.l | later('1h')", "n.l | regex_search('x')", "n.l | regex_replace('x', 'y')", "n.l | b64decode",
    "[n.l] | sum(start=[])", "{'a': {}} | merge({'a': n.l})",
    "{'spec': {}} | merge({'spec': {'ports': n.l}})", "fail(n.l)", "required(none, n.l)", "n.l + n.m",
    "n.l * 2 == n.m * 2", "n.l[:] == n.m[:]", "n.l | list == n.m | list",
    "n.l | reverse | list == n.m | reverse | list",
    "n.l | map('upper') | list", "cycler(n.l).next() == n.m",
    "{'a': n.l}.items() | list == {'a': n.m}.items() | list", "{'a': n.l}.items() == {'a': n.m}.items()",
    "{'a': n.l}.items() - {'a': n.m}.items()", "n.missing | default(n.l)", "n.l | default(1) ~ 'x'", "'x' ~ [n.l]",
    "lookup_all('v1', 'Pod', {(n.l, 1): 'a'})", "[{'a': 1}] | map(attribute='b', default=n.l) | list",
    "n.l is iterable and n.l == n.m", "n.l is sequence and [n.l] == [n.m]", "'x'.startswith(n.l)", "'x'.strip(n.l)",
    "[lookup_all('v1', 'Pod'), n.l] | join", "[lookup_all('v1', 'Pod'), n.l] ~ ''",
    "[lookup_all('v1', 'Pod'), n.l] == [lookup_all('v1', 'Pod'), n.m]", "[lookup_all('v1', 'Pod'), n.l] | sort",
    "[lookup_all('v1', 'Pod'), n.l]", "[lookup_all('v1', 'Pod'), n.l] | to_yaml",
)  # fmt: skip
"""Expressions that read a list `n.l` whole. A line adds another one."""

_OTHERS = (
    "0 < 1 < n.l < n.m", "[{}, {}] | sort(attribute='a', default=n.l)", "{n.l: 1}", "dict([(n.l, 1)])", "{}[n.l]",
    "{}.get(n.l)", "n.l in {}", "dict(a=1)[n.l]", "n.l is filter", "n.l is test", "','.join([n.l])", "n.l | bytes",
    "'x' | regex_search(n.l)", "n.l | from_json", "n.l | from_yaml", "n.l | int", "n.l | float", "n.l | abs",
    "n.l | round", "n.l | sum", "n.l | filesizeformat", "{'a': n.l} | merge({'a': {'b': {'c': none}}})", "range(n.l)",
    "joiner(n.l)() ~ joiner(n.l)()", "spec[n.l]", "n.l[n.l]", "lookup('v1', 'Pod', n.l)",
    "lookup_all('v1', 'Pod', {'a': n.l})", "child('Pod', n.l)", "generated(24, n.l)", "generated(n.l)",
    "expired(n.l)", "n.l | attr('x')", "n.l | map(attribute='a.b') | list", "n.l is divisibleby(2)", "n.l is number",
    "'x'.replace('x', n.l)",
)  # fmt: skip
"""Expressions that refuse it, or read only a part of it."""

_HASHES = (
    "n.l == n.m", "n.l", "{(n.l, 1): 2}", "{n.l: 1}", "dict([(n.l, 1)])", "{}[n.l]", "{}.get(n.l)", "n.l in {}",
    "dict(a=1)[n.l]", "[n.l, n.m] | unique | list", "[{'a': n.l}] | unique(attribute='a') | list",
    "[n.l, n.m] | sort", "{'a': n.l}.items() - {'a': n.m}.items()", "{'a': n.l}.keys() - [n.l]",
    "lookup_all('v1', 'Pod', {(n.l, 1): 'a'})", "[n.m].index(n.l)", "n.l in [n.m]",
)  # fmt: skip
"""Expressions that hash or compare a tuple `n.l`."""

_TEXT_STEPS = (
    "b.rfind('b' + 'a' * 1000000)", "b.rindex('b' + 'a' * 1000000)", "b.rsplit('b' + 'a' * 1000000)",
    "b.rpartition('b' + 'a' * 1000000)", "b.strip('b' * 1000000 + 'a')", "b.lstrip('b' * 1000000 + 'a')",
    "b.rstrip('b' * 1000000 + 'a')", "b | trim('b' * 1000000 + 'a')", "b.find('b' + 'a' * 1000000)",
    "b.count('b' + 'a' * 1000000)", "b.index('b' + 'a' * 1000000)", "b.replace('b' + 'a' * 1000000, '')",
    "b.replace('a' * 1000000 + 'b', '')", "b.split('a' * 1000000 + 'b')", "b.rsplit('a' * 999 + 'b' + 'a' * 1000)",
    "b.rfind('a' * 500000 + 'b' + 'a' * 500000)", "('a' * 1000000 + 'b') in b", "b is in('a' * 1000000 + 'b')",
    "b | replace('a' * 1000000 + 'b', '')", "b.split('a')", "b.splitlines()", "b | list | length", "b.partition('ab')",
    "b.startswith(('b',) * 300000)", "b.rfind('ba' * 500000)", "('ab' * 1000000).rfind('bb' + 'ab' * 500000)",
)  # fmt: skip

_NUMBERS = (
    "n.l", "n.l // 3", "n.l % 7", "n.l - 1", "n.l + n.l", "n.l * n.l", "-n.l", "n.l / 3", "n.l ~ ''", "n.l | string",
    "'%d' % n.l", "'%x' % n.l", "'{:d}'.format(n.l)", "'{:x}'.format(n.l)", "[n.l] | sum", "[n.l, n.l] | sum", "n.l | abs",
    "n.l | round", "n.l | filesizeformat", "n.l | float", "n.l is even", "n.l is divisibleby(3)", "n.l // (n.l - 1)",
    "n.l ** 2", "2 ** n.l", "n.l | bytes", "n.l | tojson", "n.l.bit_length()", "n.l.as_integer_ratio()",
    "(('f' * 3000000) | int(0, 36)) % 7", "('9' * 4400) | int", "('9' * 3000000) | int", "('9' * 3000000) | float",
    "n.l == n.l - 1", "('1' * 3000000 ~ 'x') | float",
)  # fmt: skip


BOMBS: Mapping[str, str] = {
    **{f"a list, read: {use}": text for use, text in _each(_LISTS, *_READS).items()},
    **{f"a list: {use}": text for use, text in _each(_LISTS, *_OTHERS).items()},
    **{f"a tuple: {use}": text for use, text in _each(_TUPLES, *_HASHES).items()},
    **{f"a mapping: {use}": text for use, text in _each(_MAPPINGS, *_HASHES).items()},
    **{f"a deep tuple: {use}": text for use, text in _each(_DEEP, *_HASHES).items()},
    **{f"arguments: {use}": text for use, text in _each(_ARGUMENTS, "{n.l: 1}", "n.l", "[n.l] | unique | list").items()},
    **{f"generators: {use}": text for use, text in _each(_GENERATORS, "n.l | first", "1").items()},
    **{f"a number: {use}": text for use, text in _each(_BITS, *_NUMBERS).items()},
    **{f"a text: {use}": text for use, text in _each(_BIG, *_TEXT_STEPS).items()},
    "a text that doubles": f"{_TEXTS}v: {{{{ n.l }}}}",
    **{
        f"many texts: {use}": text
        for use, text in _each(
            _MANY, "l", "l ~ ''", "l | join", "l | tojson", "l | tojson ~ ''", "l | to_yaml", "l | sha256", "''.join(l)",
            "l | string", "'%s' % (l,)", "'{}'.format(l)", "l | upper", "l | urlencode", "b | replace(1, 'x')",
            "('1' * 1000000) | replace(1, b)", "('1' * 1000000) | replace(1, 'yyyyy' * 500000)",
            "[l] | map('string') | list", "[l, l] | join(',')", "l | sort | length", "l | map('upper') | list | length",
            "[l[:1000]] * 100 | map('join') | list | length", "l == [b] * 100000", "l | unique | list | length",
            "l | groupby(0) | length", "l | wordcount", "b in l", "('b' * 1000000) in l", "l | min",
        ).items()
    },
    **{
        f"template text: {use}": text
        for use, text in _each(_TEXT, "t", "t | upper", "t ~ ''", "t == 'x'", "t | length", "t | indent(2)", "t | trim",
                               "t | sha256", "t | from_yaml", "t | string", "[t, t] | join", "t in 'x'", "t[0]",
                               "t.upper()", "t | tojson", "[t] | tojson").items()
    },
    **{
        f"lines: {use}": text
        for use, text in _each(_LINES, "t | indent(1024)", "t | indent(1024, true, true)", "t ~ '' | indent(1024)").items()
    },
    "blank lines at an end": f"{_BLANKS}v: {{{{ t | trim | length }}}}",
    "empty mappings among lines": "v:\n{% for i in range(60000) %}{{ {} | to_yaml }}\n{% endfor %}",
    "empty mappings in lines": "{% for i in range(60000) %}v: {{ {} | to_yaml }}\n{% endfor %}",
    "text in text": "{% set t %}{% for i in range(90000) %}{{ i }}{% endfor %}{% endset %}"
    "{% macro m() %}{% for i in range(90000) %}{{ t }}{% endfor %}{% endmacro %}v: {{ m() }}",
    "slices": f"{_BIG}{{% set n = namespace(l=[]) %}}{{% for i in range(3000) %}}{{% set n.l = [n.l, b[1:], b[2:], b[3:]] %}}"
    "{% endfor %}",
    "slices of a list": "{% set b = [1] * 300000 %}{% set n = namespace(l=[]) %}"
    "{% for i in range(3000) %}{% set n.l = [n.l, b[1:], b[2:]] %}{% endfor %}",
    "copies of a list": "{% set b = [1] * 300000 %}{% set n = namespace(l=[]) %}"
    "{% for i in range(3000) %}{% set n.l = [n.l, b.copy()] %}{% endfor %}",
    "copies of a mapping": "{% set n = namespace(l=[], m={}) %}"
    "{% for i in range(3000) %}{% set n.m = n.m | merge({i | string: i}) %}{% set n.l = [n.l, n.m] %}{% endfor %}",
    "literals": "{% set n = namespace(l=[]) %}{% for i in range(3000) %}{% set n.l = [n.l" + ", i" * 9000 + "] %}{% endfor %}",
    "a sum of lists": "v: {{ ([[1] * 300000] * 300000) | sum(start=[]) | length }}",
    "a sum of tuples": "v: {{ ([(1,) * 3000] * 100000) | sum(start=()) | length }}",
    "an indentation of text": "v: {{ [[[1]]] | tojson(indent='x' * 1000000) ~ '' }}",
    "an indentation of numbers": "v: {{ ([[[[1, 2]] * 9] * 99] * 99) | tojson(indent=1024) ~ '' }}",
    "a deep text": "{% set n = namespace(l=[1] * 50) %}{% for i in range(90) %}{% set n.l = [n.l, i] * 1 %}{% endfor %}"
    "v: {{ [n.l] * 200 | to_yaml | length }}",
    "changed": f"{_LISTS}{{% for i in [1, 2] %}}{{% if loop.changed(n.l) and loop.changed(n.m) %}}{{% endif %}}{{% endfor %}}",
    "generated": "{% for i in range(90000) %}{% set x = generated(1024) %}{% endfor %}",
    "generated values in lists": "v:\n{% for i in range(90000) %}- {{ generated(8) }}\n{% endfor %}",
    "aliases of a value": "v: &a {{ 'x' * 1000000 }}\nw: [" + "*a, " * 5000 + "]",
    "aliases of a list": "v: &a {{ ['x' * 10000] * 100 }}\nw: [" + "*a, " * 5000 + "]",
    "aliases of a text": "v: &a " + "x" * 20000 + "\nw: [" + "*a, " * 5000 + "]",
    "aliases of a text with a value": "v: &a x{{ 'x' * 100000 }}\nw: [" + "*a, " * 5000 + "]",
    "aliases of a merged mapping": "v: &a {a: {{ 'x' * 1000000 }}}\nw: [" + "{<<: *a}, " * 5000 + "]",
    "flow text": "v: [{% for i in range(3000) %}{{ i }},{% endfor %}]",
    "flow lines": "v: [" + "1,\n" * 9 + "{% for i in range(3000) %}1,{% endfor %}]",
    "folded by the compiler": "v: {{ 'a' * 10 ** 9 }}{{ 9 ** 9 ** 9 }}{{ ('a' * 10 ** 5) * 10 ** 5 }}{{ [0] * 10 ** 10 }}",
    "a conversion": "v: {{ '%s' * 1000000 % (('x' * 1000000,) * 1000000) }}",
    "conversions by name": "v: {{ ('%(a)s' * 100000) % {'a': 'x' * 1000000} }}",
    "fields of a format": "v: {{ ('{0}' * 1000000).format('x' * 3000000) }}",
    "keys of a mapping that collide": "{% set n = namespace(l=[]) %}{% for i in range(3000) %}"
    "{% set n.l = [(i * 2305843009213693951, 1), n.l] %}{% endfor %}v: {{ dict(n.l) }}",
    "numbers that collide": "{% set m = 2305843009213693951 %}"
    "{% set l = range(3000) | map('string') | map('replace', '', '') | map('int') | list %}"
    "{% set n = namespace(l=[]) %}{% for i in range(999) %}{% set n.l = n.l + [[i * m, 1]] %}{% endfor %}v: {{ dict(n.l) }}",
    "a circle of includes": "{% include 'a.yaml.j2' %}",
    "a circle of macros": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}v: {{ a() }}",
    "a circle of calls": "{% macro a() %}{% call a() %}{% endcall %}{{ caller() }}{% endmacro %}"
    "{% call a() %}{% endcall %}",
    "a circle of loops": "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
    "a circle of blocks": "{% block a %}{{ self.a() }}{% endblock %}",
    "a missing field below": "{% set n = namespace(l=spec.x) %}{% for i in range(3000) %}{% set n.l = n.l.x %}{% endfor %}",
    "namespaces": "{% set n = namespace(l=0) %}{% for i in range(3000) %}{% set n.l = namespace(l=n.l) %}{% endfor %}",
    "methods": "{% set n = namespace(l=[]) %}{% for i in range(3000) %}{% set n.l = [n.l.index] %}{% endfor %}",
    "views": "{% set n = namespace(l={}) %}{% for i in range(3000) %}{% set n.l = {'a': n.l.items()} %}{% endfor %}",
    "bound methods": "{% set n = namespace(l=[]) %}{% for i in range(3000) %}{% set n.l = (n.l.index,) %}{% endfor %}",
    "cyclers": "{% set n = namespace(l=1) %}{% for i in range(3000) %}{% set n.l = cycler(n.l) %}{% endfor %}",
    "joiners": "{% set n = namespace(l=1) %}{% for i in range(3000) %}{% set n.l = joiner(n.l) %}{% endfor %}",
    "reversed": "{% set n = namespace(l=[1]) %}{% for i in range(3000) %}{% set n.l = (n.l | reverse) %}{% endfor %}",
    "items of items": "{% set n = namespace(l={}) %}{% for i in range(3000) %}{% set n.l = {'a': n.l} | items %}"
    "{% endfor %}",
    "a doubling expression of known texts": "{% set a = 'x' %}" + "{% set a = a ~ a %}" * 60 + "v: {{ a }}",
    "a doubling list of known items": "{% set a = ['x'] %}" + "{% set a = [a, a] %}" * 60 + "v: {{ a == 1 }}"
    "{% if spec.x %}{% set a = [a] %}{% else %}{% set a = [a] %}{% endif %}",
}  # fmt: skip
"""Text from line 5 of a template on, by what it does."""

STATIC: Mapping[str, str] = {
    "texts": "{% set a = 'x' %}" + "{% set a = a ~ a %}" * 60 + "v: {{ a }}",
    "lists": "{% set a = ['x'] %}{% set b = ['x'] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 60
    + "{% if spec.x %}{% set c = a %}{% else %}{% set c = b %}{% endif %}v: {{ c }}",
    "mappings": "{% set a = {'a': 1} %}{% set b = {'a': 1} %}"
    + "{% set a = {'a': a, 'b': a} %}{% set b = {'a': b, 'b': b} %}" * 60
    + "{% if spec.x %}{% set c = a %}{% else %}{% set c = b %}{% endif %}v: {{ c }}",
    "sums of lists": "{% set a = ['x'] %}" + "{% set a = a + a %}" * 60 + "{% for x in a %}v: {{ x }}\n{% endfor %}",
    "an indentation": "{% set a %}x\n" + "y\n" * 1000 + "{% endset %}v: {{ a | indent(999999999999) }}",
    "a position": "{% set a = ['x'] %}v: {{ a['" + "9" * 5000 + "'] }}{{ a['\u00b2'] }}",
}  # fmt: skip
"""The same for the reading of templates without a parent, as for `rbac`."""

SECONDS = 20
"""Seconds of processor time for one template, which has one: more than any needs on a busy machine."""

MEMORY = 1536 * 2**20
"""Bytes of address space."""


def _render(text: str) -> list[str]:
    files = {"a.yaml.j2": HEAD + text, "b.yaml.j2": HEAD}
    result = render(templates(files), parent())
    assert result.documents or result.problems
    return [str(problem)[:400] for problem in result.problems]


def _read(text: str) -> list[str]:
    folder = SimpleNamespace(templates=templates({"a.yaml.j2": HEAD + text}))
    template_contents(folder)  # type: ignore[arg-type]
    return []


def main() -> None:
    """Render the templates whose names begin with one of the arguments, by default all."""
    works = [(name, _render, text) for name, text in BOMBS.items()]
    works += [(f"static: {name}", _read, text) for name, text in STATIC.items()]
    for name, work, text in works:
        if not name.startswith(tuple(sys.argv[1:]) or ""):
            continue
        read, write = os.pipe()
        child = os.fork()
        if not child:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.write(write, json.dumps(work(text)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        problems = json.loads(answer) if answer else [f"ended with {os.waitstatus_to_exitcode(status)}"]
        sys.stdout.write(json.dumps([name, problems]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
