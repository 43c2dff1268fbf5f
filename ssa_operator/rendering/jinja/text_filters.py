"""Filters that read text: JSON, YAML, quantities, durations, versions, and regular expressions in the syntax of RE2.

Promises:
- The result is plain data, as if the template had it from the parent. It can't become YAML syntax.
- A value within template text stays a value, with its type and its provenance.
- A search by a regular expression takes time proportional to the text. No pattern and no text makes a render exceed its
  limits.
- A pattern that RE2 does not have, such as a back-reference or a look-ahead, is an error that says so.
- An error contains neither the pattern nor the text, because both may come from a Secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import re2

from ssa_operator.objects.scalars import QUANTITY_LIMIT, amount, parse_duration
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import DEPTH_LIMIT, LimitError
from ssa_operator.rendering.values.line_marks import MarkedText, StaticText
from ssa_operator.rendering.values.manifest_values import UnfitValueError, json_data, text_of
from ssa_operator.rendering.values.template_text import RenderedText, Text
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues


def from_json(value: Any) -> Any:
    """The data of a JSON text."""
    text = _text("from_json", value)
    try:
        return json_data(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise UnfitValueError("from_json: the text is not JSON") from None
    except RecursionError:
        raise UnfitValueError(f"from_json: the text is nested deeper than {DEPTH_LIMIT} levels") from None


def from_yaml(value: Any) -> Any:
    """The data of a text with one document of YAML 1.2, by the rules of manifests; none for an empty text."""
    text = _text("from_yaml", value)
    try:
        nodes = parse(StaticText(text, "from_yaml"))
        data = [node.build(SlotValues()) for node in nodes]
    except DocumentError as error:
        raise UnfitValueError(f"from_yaml: the text is not YAML in its line {error.location.line}") from None
    return _only(data)


def template_data(text: Text, files: Sequence[str]) -> Any:
    """The data of template text. The values in it stay values: none of them becomes YAML syntax.

    `files` are the names of the templates, by the numbers in line marks. Raises DocumentError.
    """
    written = RenderedText(text.pieces)
    source = MarkedText(written.marked, files, SourceLocation(files[0], 1))
    slots = SlotValues(written.values, written.texts, written.sizes, tracked=written.tracked)
    return _only([node.build(slots) for node in parse(source)])


def bytes_of(value: Any) -> int:
    """The number of a Kubernetes quantity (`1Gi`, `500M`, `2`), rounded up: 1073741824."""
    return _quantity("bytes", value, 1)


def millis_of(value: Any) -> int:
    """The number of thousandths of a Kubernetes quantity (`250m`, `1.5`, `2`), rounded up: 250."""
    return _quantity("millis", value, 1000)


def seconds_in(value: Any) -> int:
    """The seconds of a duration (`1h30m`, `500ms`, `7d`), rounded up: 5400."""
    return _duration("seconds", value, 1)


def milliseconds_in(value: Any) -> int:
    """The milliseconds of a duration (`1.5s`, `500ms`), rounded up: 1500."""
    return _duration("milliseconds", value, 1000)


def version_at_least(value: Any, least: Any) -> bool:
    """Whether a version (`1.36`, `v1.36.2`, `17.5-alpine`) is this one or a later one, number by number; the text
    behind the numbers doesn't count.
    """
    return _version(value) >= _version(least)


def _version(value: Any) -> list[int]:
    found = _VERSION.match(_text("version_at_least", value))
    if found is None:
        raise UnfitValueError("version_at_least needs versions such as 1.36 or v1.36.2, as texts")
    numbers = [int(number) for number in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


_VERSION = re.compile(r"v?([0-9]{1,9}(?:\.[0-9]{1,9}){0,7})(?![0-9])", re.ASCII)


def _duration(name: str, value: Any, factor: int) -> int:
    try:
        seconds = parse_duration(_text(name, value))
    except ValueError:
        raise UnfitValueError(f"{name} needs a duration such as 500ms or 1h30m") from None
    return math.ceil(round(seconds * factor, 6))  # 1.1 * 1000 is more than 1100 in floating point


def _only(data: Sequence[Any]) -> Any:
    if len(data) > 1:
        raise UnfitValueError(f"from_yaml: the text has {len(data)} documents; it may have one")
    return data[0] if data else None


def _quantity(name: str, value: Any, factor: int) -> int:
    found = None if isinstance(value, bool) else amount(value)
    if found is None:
        if isinstance(value, str) and len(value) > QUANTITY_LIMIT:
            raise UnfitValueError(f"{name}: the quantity has {len(value)} characters, and may have {QUANTITY_LIMIT}")
        raise UnfitValueError(f"{name} needs a quantity such as 500m or 1Gi")
    return math.ceil(found * factor)


def _text(name: str, value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, dict, list, tuple)):
        raise UnfitValueError(f"{name} needs a text, and this value is {'null' if value is None else 'data already'}")
    text = text_of(value)  # also what `tojson` and `to_yaml` give
    limits.current().produce(len(text))
    return text


PATTERN_LIMIT = 1000
"""Characters of a pattern."""

SEARCH_LIMIT = 64 * 2**20
"""States of the compiled pattern times bytes of the text: RE2 needs at most a second for as many."""

_PATTERNS = 128
_MEMORY = 2**20

_REASONS = {
    "invalid perl operator": "it has a look-ahead, a look-behind or another operator that RE2 does not have",
    "invalid escape sequence": "it has an escape that RE2 does not have; back-references such as \\1 are not supported",
    "pattern too large": "it is too large; repeat less",
    "invalid repetition size": "a part may be repeated at most 1000 times",
}
"""RE2's errors, in words for authors."""

_REFERENCE = re.compile(r"\\(?:([0-9]{1,2})|g<(\w+)>|(\\)|(.|$))", re.DOTALL)
_NUMBER = re.compile("[0-9]{1,3}")
_LOST_ESCAPE = re.compile("[\x01-\x08]")


def regex_search(value: Any, pattern: Any, group: Any = 0) -> str | None:
    """The first match of a pattern, or a group of it by number or name; none without a match."""
    compiled = _compiled("regex_search", pattern)
    (index,) = _groups("regex_search", compiled, [group])
    found = next(_matches("regex_search", compiled, text_of(value)), None)
    return None if found is None else found[index]


def regex_replace(value: Any, pattern: Any, replacement: Any = "", count: Any = 0) -> str:
    """The text with each match of a pattern, or the first `count` ones, replaced; `\\1` and `\\g<name>` are groups."""
    compiled = _compiled("regex_replace", pattern)
    if type(count) is not int or count < 0:
        raise UnfitValueError("regex_replace: count must be a number of matches, 0 for all")
    written = _replacement(compiled, _argument("regex_replace", "replacement", replacement))
    text = text_of(value)
    parts: list[str] = []
    size = end = 0
    for number, match in enumerate(_matches("regex_replace", compiled, text), 1):
        part = text[end : match.start()] + written(match)
        parts.append(part)
        size += len(part)
        end = match.end()
        if size > limits.OUTPUT_LIMIT:
            raise LimitError(f"the result of regex_replace is larger than {limits.OUTPUT_LIMIT // 2**20} MiB")
        if number == count:
            break
    return "".join((*parts, text[end:]))


def _matches(name: str, compiled: Any, text: str) -> Iterator[Any]:
    budget = limits.current()
    budget.produce(len(text))
    if compiled.programsize * len(text.encode()) > SEARCH_LIMIT:
        raise LimitError(f"{name}: the pattern is too large for a text of {len(text)} characters")
    for match in compiled.finditer(text):
        budget.step()
        budget.check_time()  # each search for a next match may read the rest of the text
        yield match
    budget.check_time()


def _compiled(name: str, pattern: Any) -> Any:
    text = _argument(name, "pattern", pattern)
    if len(text) > PATTERN_LIMIT:
        raise UnfitValueError(f"{name}: the pattern has {len(text)} characters, and may have {PATTERN_LIMIT}")
    try:
        return _compile(text)
    except re2.error as error:
        found = error.args[0] if error.args else ""
        reason = (found.decode(errors="replace") if isinstance(found, bytes) else str(found)).partition(":")[0]
        known = next((words for begin, words in _REASONS.items() if reason.startswith(begin)), reason)
        raise UnfitValueError(f"{name}: the pattern is no regular expression of RE2: {known}") from None


@lru_cache(_PATTERNS)
def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return re2.compile(pattern, options)


def _argument(name: str, argument: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UnfitValueError(f"{name}: {argument} must be a string")
    if _LOST_ESCAPE.search(value):
        raise UnfitValueError(
            f"{name}: {argument} has a control character; write two backslashes in a string of a template: "
            "'\\\\1', '\\\\b'"
        )
    return value


def _replacement(compiled: Any, template: str) -> Callable[[Any], str]:
    """The function that writes the replacement of a match."""
    literals: list[str] = [""]
    groups: list[int | str] = []
    end = 0
    for reference in _REFERENCE.finditer(template):
        literals[-1] += template[end : reference.start()]
        end = reference.end()
        if reference[3]:
            literals[-1] += "\\"
        elif reference[4] is not None:
            raise UnfitValueError("regex_replace: replacement has an escape that is none; write \\\\ for a backslash")
        else:
            groups.append(int(reference[1]) if reference[1] else reference[2])
            literals.append("")
    literals[-1] += template[end:]
    indexes = _groups("regex_replace", compiled, groups)

    def written(match: Any) -> str:
        parts = [literals[0]]
        for index, literal in zip(indexes, literals[1:], strict=True):
            parts += (match[index] or "", literal)
        return "".join(parts)

    return written


def _groups(name: str, compiled: Any, groups: list[int | str]) -> list[int]:
    """The numbers of groups. Raises UnfitValueError for a group that the pattern lacks."""
    found = []
    for group in groups:
        index = compiled.groupindex.get(group) if isinstance(group, str) and not _NUMBER.fullmatch(group) else group
        if isinstance(index, (int, str)) and not isinstance(index, bool):
            number = int(index)
            if 0 <= number <= compiled.groups:
                found.append(number)
                continue
        raise UnfitValueError(f"{name}: the pattern has no such group; it has {compiled.groups}")
    return found
