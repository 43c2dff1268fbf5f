"""Strings that break templates which paste text, and the positions of a manifest at which a value can stand.

The table is also sent through a real API server; there a NUL is legal in a JSON string, but no ConfigMap holds one
through all of its clients, so it stands apart.
"""

from __future__ import annotations

from collections.abc import Mapping

HOSTILE_VALUES: Mapping[str, str] = {
    "empty": "",
    "space": " ",
    "leading space": "  a",
    "trailing space": "a  ",
    "tab": "\t",
    "leading tab": "\ta",
    "single quote": "it's",
    "double quote": 'say "hi"',
    "both quotes": "'\"'\"",
    "backslash": "C:\\new\\table",
    "trailing backslash": "a\\",
    "colon": "a: b",
    "colon at the end": "a:",
    "colon at the start": ": a",
    "comment": "a # b",
    "hash": "# c",
    "newline": "a\nb",
    "trailing newline": "a\n",
    "trailing newlines": "a\n\n\n",
    "leading newline": "\na",
    "only newlines": "\n\n",
    "carriage return": "a\rb",
    "crlf": "a\r\nb\r\n",
    "indented lines": "a\n    b\n  c",
    "leading indented line": "    a\nb",
    "trailing spaces in lines": "a  \nb  \n",
    "a manifest": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\n",
    "document start": "---",
    "document end": "...",
    "document within": "a\n---\nb",
    "directive": "%YAML 1.1",
    "anchor": "&a b",
    "alias": "*a",
    "merge": "<<",
    "tag": "!!python/object:os.system",
    "local tag": "!a b",
    "question": "? a",
    "dash": "- a",
    "only dash": "-",
    "literal": "|",
    "folded": ">-",
    "flow list": "[a, b]",
    "flow mapping": "{a: b}",
    "open bracket": "[",
    "close brace": "}",
    "comma": "a, b",
    "at": "@a",
    "backtick": "`a`",
    "percent": "%",
    "expression": "{{ spec.password }}",
    "statement": "{% raw %}",
    "jinja comment": "{# a #}",
    "expression end": "}}",
    "yes": "yes",
    "off": "off",
    "true": "true",
    "True": "True",
    "null": "null",
    "tilde": "~",
    "number": "1",
    "leading zero": "010",
    "exponent": "1e3",
    "hexadecimal": "0x1F",
    "octal": "0o17",
    "float": "1.0",
    "underscore number": "1_000",
    "sexagesimal": "1:30",
    "date": "2001-12-14",
    "timestamp": "2001-12-14T21:59:43.10-05:00",
    "infinity": ".inf",
    "not a number": ".nan",
    "huge number": "9" * 40,
    "equals": "=",
    "unicode": "zażółć gęślą jaźń",
    "emoji": "a \U0001f600 b",
    "flag": "\U0001f1f5\U0001f1f1",
    "delete": "a\x7fb",
    "next line": "a\x85b",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "no-break space": "\xa0a\xa0",
    "zero width": "a\u200bb",
    "byte order mark": "\ufeffa",
    "control": "a\x01b",
    "escape": "\x1b[31m",
    "form feed": "a\x0cb",
    "noncharacter": "a\uffffb",
    "private use": "\ue000\ue001\ue002\ue003\ue004\ue005\ue006",
    "forged stand-in": "\ue0000\ue001",
    "forged line mark": "\ue0020.1\ue001",
    "half of a stand-in": "\ue0000",
    "html": "<b>&amp;</b>",
    "json": '{"a": "b\\n"}',
    "template of go": "{{ .Values.x }}",
    "shell": "$(rm -rf /) ${HOME}",
    "long": "x" * 5000,
    "long with spaces": "word " * 2000,
    "last private use": "\U0010fffd",
}

POSITIONS: Mapping[str, tuple[str, str]] = {
    "plain": ("{{ spec.v }}", "{}"),
    "single quoted": ("'{{ spec.v }}'", "{}"),
    "double quoted": ('"{{ spec.v }}"', "{}"),
    "literal block": ("|-\n      {{ spec.v }}", "{}"),
    "literal block with a line break": ("|\n      {{ spec.v }}", "{}\n"),
    "folded block": (">-\n      {{ spec.v }}", "{}"),
    "block among lines": ("|\n      a\n        {{ spec.v }}\n      b", "a\n  {}\nb\n"),
    "mixed": ("a{{ spec.v }}z", "a{}z"),
    "mixed with blanks": ("a {{ spec.v }} z", "a {} z"),
    "mixed in single quotes": ("'a: {{ spec.v }} # z'", "a: {} # z"),
    "mixed in double quotes": ('"a\\t{{ spec.v }}\\"z"', 'a\t{}"z'),
    "twice": ("{{ spec.v }}{{ spec.v }}", "{}{}"),
    "over two lines": ("a {{ spec.v }}\n      z", "a {} z"),
    "with a comment": ("{{ spec.v }} # {{ spec.v }}", "{}"),
    "joined": ('{{ "a" ~ spec.v }}', "a{}"),
    "formatted": ('{{ "a%sz" % spec.v }}', "a{}z"),
    "default": ("{{ spec.missing | default(spec.v) }}", "{}"),
    "set block": ("{% set x %}a{{ spec.v }}{% endset %}{{ x }}", "a{}"),
    "filter block": ("{% filter string %}a{{ spec.v }}{% endfilter %}", "a{}"),
}
"""By name: the template text after `key: ` in a mapping that is indented by four, and the text of the field."""


def wanted(position: str, value: str) -> str:
    """The expected value of the field at a position."""
    return POSITIONS[position][1].replace("{}", value)


def config_map(name: str) -> str:
    """The template of a ConfigMap with `spec.v` at every position, one key for each position."""
    lines = [f"    p{number}: {text}" for number, (text, _) in enumerate(POSITIONS.values())]
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n"
    return head + "\n".join(lines) + "\n"


def config_map_data(value: str) -> dict[str, str]:
    """The data of that ConfigMap."""
    return {f"p{number}": wanted(position, value) for number, position in enumerate(POSITIONS)}
