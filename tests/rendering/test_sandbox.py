"""The sandbox refuses access to Python, and the limits stop a template without end."""

from __future__ import annotations

import copy
import threading

import pytest

from ssa_operator.objects.render_result import Rendered
from ssa_operator.rendering.jinja.templates import LoadError
from ssa_operator.rendering.render import render
from ssa_operator.rendering.values import limits
from tests.rendering.template_files import HEAD, document, fault, parent, problem, rendered, templates, value

PLACE = "echoes.example.com/a.yaml.j2:5: "


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "expression",
    [
        "spec.__class__",
        "spec['__class__']",
        "spec.a.__class__",
        "spec.s.__class__",
        "spec.s['__class__']",
        "spec.n.__class__.__mro__",
        "spec.l.__class__",
        "''.__class__.mro()",
        "[].__class__.__base__.__subclasses__()",
        "range.__globals__",
        "cycler.__init__.__globals__",
        "joiner.__init__.__globals__['os']",
        "namespace.__init__",
        "dict.__base__",
        "self.__init__.__globals__",
        "self._TemplateReference__context",
        "m.__globals__",
        "m._environment",
        "m._func",
        "loop_of._iterator",
        "'{0.__class__}'.format(spec)",
        "'{a.__class__.__mro__}'.format(a=spec)",
        "'{0[__class__].x}'.format(spec)",
        "'{a.__class__}'.format_map({'a': 1})",
        "'%s'.format.__self__",
        "'a'.translate({97: 'b'})",
        "spec.missing.__class__",
        "(spec.l | map('upper')).gi_frame",
        "['x'] | map(attribute='__class__') | list",
        "macro_text.__class__",
        "spec | attr('__class__')",
        "'' | attr('_x')",
        "'' | attr('\\x5f\\x5fclass\\x5f\\x5f')",
        "''['\\x5f\\x5fclass\\x5f\\x5f']",
        "''['__cla' ~ 'ss__']",
        "cycler.__init__.__globals__.os.popen('id').read()",
        "cycler(1).__class__",
        "joiner().__class__",
        "fail.__globals__",
        "required.__closure__",
        "range(1).__iter__()",
        "dict.__subclasses__()",
        "dict(a=1).__class__",
        "dict.update(spec, b=1)",
        "dict['update'](spec, b=1)",
        "dict['x'].update(spec, b=1)",
        "(dict,)[0].pop(spec, 'a')",
        "dict.clear(object.metadata)",
        "dict.setdefault(values, 'a', 1)",
        "dict.items(spec)",
        "spec.__setitem__('a', 1)",
        "spec.l.__setitem__(0, 1)",
        "namespace(a=1).__class__",
        "namespace(a=1)['_Namespace__attrs']",
        "self.__class__",
        "self.blk.__self__",
        "self.blk._context",
        "m.__call__",
        "child.__self__",
        "lookup.__func__",
        "generated.__self__",
        "expired.__globals__",
        "read_file.__self__",
        "none.__class__",
        "true.__class__",
        "(1).__class__",
        "1.5.__class__",
        "(5).to_bytes(1000000000, 'big')",
        "'x'.encode() * 1000000000",
        "'x'.encode().center(1000000000)",
        "''.__reduce__()",
        "[].__reduce_ex__(2)",
        "''.__format__('x')",
        "''.__getattribute__('x')",
        "''.format.__func__",
        "''.join.__self__",
        "{}.get.__self__",
        "('<' | e).__class__",
        "('<' | e).__html__()",
        "('{0.__class__}' | safe).format(1)",
        "('{0.__class__}' | e).format(1)",
        "('{0.__class__}' | string).format(1)",
        "(['{0.__class__}'] | first).format(1)",
        "('{0.__cla' ~ 'ss__}').format(1)",
        "'{0.__class__.__init__.__globals__}'.format(cycler)",
        "'{0[__class__]}'.format(spec)",
        "macro_text.__init__",
        "[spec] | map(attribute='__class__') | list",
        "[spec] | map('attr', '__class__') | list",
        "[spec] | groupby('__class__')",
        "[spec] | sort(attribute='__class__')",
        "[spec] | selectattr('__class__') | list",
        "[spec] | rejectattr('__class__') | list",
        "[spec] | sum(attribute='__class__')",
        "[spec] | min(attribute='__class__')",
        "[spec] | unique(attribute='__class__') | list",
        "[spec] | join(attribute='__class__')",
        "(spec.l | map('upper')).gi_frame.f_globals",
        "(spec.l | map('upper')).gi_code",
        "kubernetes_version.__class__",
        "operator.__class__",
        "values.__class__",
        "spec.l.copy.__self__",
    ],
)
def test_a_way_out_of_the_sandbox_is_refused_with_its_location(expression: str) -> None:
    text = (
        "{% block blk %}{% endblock %}{% macro m() %}x{% endmacro %}{% set macro_text = m() %}"
        "{% set loop_of = namespace() %}{% for x in [1] %}{% set loop_of.x = loop %}{% endfor %}"
    )
    expression = expression.replace("loop_of.", "loop_of.x.")
    found = problem(f"{text}{HEAD}v: {{{{ {expression} }}}}\n", {"a": {}, "s": "x", "n": 1, "l": ["x"]})
    assert found.startswith(f"{PLACE}refused for security: ")


def test_no_expression_changes_the_parent_or_the_settings() -> None:
    body = parent({"a": {"b": 1}, "l": [1]})
    kept = copy.deepcopy(body)
    for expression in CHANGES:
        compiled = templates({"a.yaml.j2": f"{HEAD}v: {{{{ {expression} }}}}\n"})
        (found,) = render(compiled, body).problems
        assert "changes a " in found.message or "refused for security" in found.message
        assert (body, compiled.globals["values"]) == (kept, {})


CHANGES = (
    "spec.update(c=1)",
    "spec.a.pop('b')",
    "spec.a.setdefault('c', 1)",
    "spec.l.append(1)",
    "spec.l.clear()",
    "object.metadata.popitem()",
    "labels.update(a=1)",
    "values.update(a=1)",
    "dict.update(spec, c=1)",
    "dict.update(values, c=1)",
    "dict['x'].clear(object)",
)
"""Expressions that would change what other templates and other reconciles see."""


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "../../x.yaml.j2", "_shared/../../x", "other.example.com/a"]
)
def test_no_file_outside_of_the_templates_is_read(name: str) -> None:
    for tag in (f"include '{name}'", f"import '{name}' as m", f"from '{name}' import m", f"extends '{name}'"):
        with pytest.raises(
            LoadError, match=rf"a\.yaml\.j2:2: .*{'outside' if '..' in name or name[0] == '/' else 'exist'}"
        ):
            problem(f"a: 1\n{{% {tag} %}}\n")
    assert "a.yaml.j2:2: " in problem("a: 1\n{% include spec.f %}\n", {"f": name})


def test_the_environment_and_the_clock_are_not_there() -> None:
    for name in ("now", "env", "environ", "open", "os", "__import__", "context", "environment"):
        assert f"{name} is not defined" in fault(f"{name}()")


@pytest.mark.parametrize(
    "expression",
    [
        "'x' * 200000000",
        "200000000 * 'x'",
        "[1] * 200000000",
        "'x'.center(100000000)",
        "'x'.ljust(100000000)",
        "'x'.rjust(100000000)",
        "'1'.zfill(100000000)",
        "'\t'.expandtabs(100000000)",
        "'x' | indent(100000000)",
        "('x\n' * 100000) | indent(1000)",
        "1.5 | round(100000000)",
        "1.5 | round(100000000, 'ceil')",
        "[1] | tojson(indent=100000000)",
        "2 ** 100000000",
        "10 ** (10 ** 10)",
        "(2 ** 4000) * (2 ** 4000)",
        "'%1000000000d' % 1",
        "'%.1000000000f' % 1",
        "'%*d' % (100000000, 1)",
        "'%(a)1000000000d' % {'a': 1}",
        "'%(a(b)c)1000000000d' % {'a(b)c': 1}",
        "'%1000000000d' | format(1)",
        "'{:1000000000}'.format(1)",
        "'{:{w}}'.format(1, w=1000000000)",
        "'{a:>1000000000}'.format_map({'a': 1})",
        "('x' * 1000000).replace('x', 'y' * 1000)",
        "('x' * 1000000) | replace('x', 'y' * 1000)",
        "('x' * 10000) | replace('', 'y' * 1000)",
        "('y' * 100000).join(['x'] * 100)",
        "(['y' * 100000] * 100) | join",
        "['x'] * 100 | join('y' * 100000)",
        "('x' * 2000000) ~ ('x' * 2000000)",
        "('x' * 2000000) + ('x' * 2000000)",
        "range(100000000) | list",
        "('{a' ~ '[0]' * 100000 ~ '}').format(a='x')",
        "('{a' ~ '.b' * 100000 ~ '}').format(a={})",
        "['x'] | map(attribute='0.' * 100000) | list",
        "[{}] | sort(attribute='a.' * 100000)",
        "([[1] * 100] * 10000) | sum(start=[])",
        "spec.a.b.c | default(('x' * 1000000) * 4)",
        "'%s' * 3000000 % 1",
        "dict(a='x' * 3000000).a * 2",
        "'x' | regex_replace('x', 'y' * 4000000)",
        "1 | string * 100000000",
        "[[]] * 100000000",
        "('a,' * 1000000) | replace(',', ',,')",
        "9 ** (9 ** 9)",
        "(-9) ** 99999",
        "(2 ** 4000) ** 2",
        "range(200000)",
    ],
)
def test_a_value_that_grows_too_large_is_refused_before_it_is_made(expression: str) -> None:
    expression = expression.replace("\n", "\\n").replace("\t", "\\t").replace("['x'] * 100 |", "(['x'] * 100) |")
    found = fault(expression)
    assert found.startswith(PLACE)
    assert any(word in found for word in ("larger than", "too large", "can't be bounded", "more than", "work"))


ENDLESS = {
    "nested loops": "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "a loop of filters": "{% for a in range(100000) %}{% set x = range(100000) | sum %}{% endfor %}",
    "a loop of strings": "{% for a in range(100000) %}{% set x = 'x' * 1000000 %}{% endfor %}",
    "a growing string": "{% set n = namespace(s='x') %}{% for a in range(1000) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "a growing list": "{% set n = namespace(l=[1]) %}{% for a in range(1000) %}{% set n.l = n.l + n.l %}{% endfor %}",
    "a growing number": "{% set n = namespace(i=3) %}{% for a in range(1000) %}{% set n.i = n.i * n.i %}{% endfor %}",
    "a doubling macro": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "nested structure": "{% set n = namespace(l=[1]) %}{% for a in range(40) %}{% set n.l = [n.l, n.l] %}{% endfor %}"
    "{{ n.l }}",
    "text in a macro": "{% macro m() %}{% for a in range(100000) %}{% for b in range(1000) %}xxxx{% endfor %}"
    "{% endfor %}"
    "{% endmacro %}{{ m() }}",
    "values in a macro": "{% macro m() %}{% for a in range(100000) %}{% for b in range(1000) %}{{ a }}{% endfor %}"
    "{% endfor %}"
    "{% endmacro %}{{ m() }}",
    "output": "{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
    "text": "{% for a in range(100000) %}" + "x" * 100 + "{% endfor %}",
}


@pytest.mark.more_cases
@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_without_end_is_stopped_and_the_others_are_rendered(name: str) -> None:
    result = rendered({"a.yaml.j2": "a: 1\n" + ENDLESS[name], "b.yaml.j2": HEAD})
    assert len(result.documents) == 1
    (found,) = result.problems
    assert str(found).startswith("echoes.example.com/a.yaml.j2:")
    assert any(
        word in found.message for word in ("work", "larger than", "too large", "renders more than", "takes longer")
    )


def test_recursion_without_end_is_an_error_that_names_it() -> None:
    macro = "a: 1\n{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}\n"
    assert problem(macro) == (
        "echoes.example.com/a.yaml.j2:2 (included from echoes.example.com/a.yaml.j2:3): "
        "a macro or an include calls itself without end"
    )
    include = "{% include 'a.yaml.j2' %}\n"
    assert problem(include) == "echoes.example.com/a.yaml.j2:1: a macro or an include calls itself without end"
    found = problem(
        "a: 1\n{% include '_x.yaml.j2' %}\n", x="{% include '_y.yaml.j2' %}", y="{% include '_x.yaml.j2' %}"
    )
    assert "calls itself without end" in found


def test_after_a_file_that_takes_too_long_further_such_files_get_less_time_and_others_render(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SECONDS_LIMIT", 0.02)
    monkeypatch.setattr(limits, "SECONDS_AFTER_OVERRUN", 0.01)
    loop = "a: 1\n{% for a in range(90000) %}{% for b in range(a) %}{% endfor %}{% endfor %}\n"
    good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\n"
    result = rendered({"a.yaml.j2": loop, "b.yaml.j2": loop, "c.yaml.j2": good})
    assert [str(found).split("; ")[0].split(": ")[1] for found in result.problems] == [
        "rendering takes longer than 0.02 seconds",
        "rendering takes longer than 0.01 seconds",
    ]
    assert [document.identity.name for document in result.documents] == ["good"]


def test_a_text_that_takes_long_to_parse_does_not_exceed_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS_LIMIT", 0.0)
    parse = "a: 1\n{% set t = (spec.text | from_yaml) %}\n"
    (found,) = rendered({"a.yaml.j2": parse}, spec={"text": "[" + "1," * 5000 + "1]"}).problems
    assert "rendering takes longer than 0 seconds" in str(found)


def test_time_is_bounded_in_every_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS_LIMIT", 0.0)
    loop = "a: 1\n{% for a in range(5000) %}{% endfor %}\n"
    results: list[Rendered] = []
    thread = threading.Thread(target=lambda: results.append(rendered({"a.yaml.j2": loop})))
    thread.start()
    thread.join()
    results.append(rendered({"a.yaml.j2": loop}))
    for result in results:
        (found,) = result.problems
        assert str(found).startswith("echoes.example.com/a.yaml.j2:2: rendering takes longer than 0 seconds")


def test_a_usual_template_is_far_from_the_limits() -> None:
    text = HEAD + "v:\n{% for i in range(2000) %}\n- {name: n{{ i }}, value: {{ i * 2 }}}\n{% endfor %}\n"
    assert len(document(text).body["v"]) == 2000
    assert value("'x' * 1000000") == "x" * 1000000


def test_a_division_by_zero_is_an_error_with_its_location() -> None:
    assert fault("1 / 0") == f"{PLACE}division by zero"


def test_python_errors_do_not_quote_values() -> None:
    assert "s3cret" not in fault("'{:d}'.format(spec.v)", {"v": "s3cret"})
    assert "s3cret" not in fault("spec.v.index('x') + 1", {"v": "s3cret"})
    assert "s3cret" not in fault("'%d' % spec.v", {"v": "s3cret"})
