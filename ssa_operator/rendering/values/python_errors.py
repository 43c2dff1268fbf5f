"""Translates Python's errors in expressions into words that template authors know.

Promises:
- The message contains no value, because a value may be a Secret's content: only kinds of values, and names that the
  template contains.
- The message contains no name of a Python class, module or function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeAlias

from ssa_operator.rendering.values.manifest_values import kind_named

ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The exceptions that Python raises for an expression whose values don't fit."""

_TEXT_LIMIT = 1000
"""Characters of an error that are read: its beginning and its end."""

_OTHER_ERROR = "a value is not of the kind, or not in the range, that this needs"

_Wording: TypeAlias = Callable[[re.Match[str]], str]


def _operation_error(found: re.Match[str]) -> str:
    operator, left, right = found[1].removesuffix(" or pow()"), kind_named(found[2]), kind_named(found[3])
    joining = "; ~ joins values as text" if operator == "+" and "a string" in (left, right) else ""
    return f"{operator} can't be used with {left} and {right}{joining}"


def _concatenation_error(found: re.Match[str]) -> str:
    left, right = kind_named(found[1]), kind_named(found[2])
    joining = "; ~ joins values as text" if left == "a string" else ""
    return f"+ can't be used with {left} and {right}{joining}"


def _comparison_error(found: re.Match[str]) -> str:
    return f"{found[1]} can't compare {kind_named(found[2])} with {kind_named(found[3])}"


def _kind(message: str) -> _Wording:
    return lambda found: message.format(kind_named(found[1]))


def _function(message: str) -> _Wording:
    """A message about a function, with the name that templates use for it."""
    return lambda found: message.format(_template_name(found[1]), *found.groups()[1:])


def _template_name(name: str) -> str:
    plain = name.rpartition(".")[2]
    own = plain.removeprefix("do_").removeprefix("test_").lstrip("_")
    return "the call" if own in _INTERNAL_FUNCTIONS else own


_INTERNAL_FUNCTIONS = frozenset({"call", "filtered", "applied", "tested", "reading", "<lambda>"})
"""Functions of the renderer between the template and the function that it calls."""


def _rules() -> Iterator[tuple[str, str | _Wording]]:
    yield r"unsupported operand type\(s\) for (.+?): '([\w.]+)' and '([\w.]+)'", _operation_error
    yield r"can only concatenate (\w+) \(not \"([\w.]+)\"\)", _concatenation_error
    yield r"can't multiply sequence by non-int of type '([\w.]+)'", _kind("* can't repeat a string or a list by {}")
    yield r"'([<>]=?)' not supported between instances of '([\w.]+)' and '([\w.]+)'", _comparison_error
    yield r"bad operand type for (?:unary .|abs\(\)): '([\w.]+)'", _kind("{} is not a number")
    yield r"'([\w.]+)' object is not (?:iterable|reversible)", _kind("{} has no items to iterate over")
    yield r"cannot unpack non-iterable ([\w.]+) object", _kind("{} can't be unpacked into several names")
    yield r"argument of type '([\w.]+)' is not", _kind("{} has no items that `in` could find")
    yield r"argument of type .* is not a container", "the value after `in` has no items"
    yield r"object of type 'generator' has no len\(\)", "the items are not a list yet; write | list before it"
    yield r"object of type '([\w.]+)' has no len\(\)", _kind("{} has no length")
    yield r"unhashable type: '([\w.]+)'", _kind("{} can't be a key or a unique item")
    yield r"'([\w.]+)' object cannot be interpreted as an integer", _kind("{} is not a whole number")
    yield r"type ([\w.]+) doesn't define __round__", _kind("{} can't be rounded")
    yield r"'([\w.]+)' object is not subscriptable", _kind("{} has no fields and no items")
    yield r"'([\w.]+)' object (?:has no attribute|does not support)", _kind("{} can't be used this way")
    yield r"attribute name must be string", "the name of a field must be a string"
    yield r"(?:slice|list|tuple|string|range) (?:indices|index) must be integers", "a position must be a whole number"
    yield r"^Range too big.*\((\d+)\)", r"the range has more than \1 numbers"
    yield r"division by zero|modulo by zero|division or modulo", "division by zero"
    yield r"^macro '(\w+)' takes no keyword argument '(\w+)'", r"macro \1 has no argument \2"
    yield r"^macro '(\w+)' takes not more than (\d+)", r"macro \1 takes not more than \2 arguments"
    yield r"^macro '(\w+)' was invoked with two values", r"macro \1 was given `caller` twice"
    yield r"multiple values for (?:keyword )?argument '(\w+)'", r"the argument \1 is given twice"
    yield r"([\w.<>]+)\(\) missing \d+ required .*arguments?: (.*)", _function("{0} needs more arguments: {1}")
    yield r"([\w.<>]+)\(\) takes no (?:keyword )?arguments", _function("{0} takes no such arguments")
    yield r"([\w.<>]+)\(\) takes .*arguments?\b.*(?:given|\d)", _function("{0} was given too many or too few arguments")
    yield r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'", _function("{0} has no argument {1}")
    yield r"^'(\w+)' is an invalid keyword argument", r"there is no argument \1"
    yield (
        r"^(\w+) expected (?:at (?:most|least) )?\d+ arguments?, got",
        _function("{0} was given too many or too few arguments"),
    )
    yield r"(?:not enough|too many) values to unpack", "an item has more or fewer parts than there are names for them"
    yield (
        r"not enough arguments for format string|^(?:Replacement index|tuple index)",
        ("the format asks for more values than it is given"),
    )
    yield r"not all arguments converted during string formatting", "the format asks for fewer values than it is given"
    yield r"format requires a mapping", "the format asks for values by name; give it a mapping"
    yield r"^(%\w) format: ", r"the format asks for a number with \1, and is given something else"
    yield (
        r"unsupported format character|[Uu]nknown format code|[Ii]nvalid format|format specifier",
        ("the format has a part that doesn't exist, or not for this kind of value"),
    )
    yield r"could not convert string to float|invalid literal for int", "the string is not a number"
    yield r"update sequence element #\d+", "a mapping can be made of a mapping, or of a list of pairs"
    yield r"is not in list|not in tuple|substring not found", "the value is not in the list or the text"
    yield r"keywords must be strings", "the names behind ** must be strings"
    yield r"sum\(\) can't sum strings", "sum adds numbers; join joins strings"
    yield (
        r"must be str(?: or None)?, not ([\w.]+)|expected str instance, ([\w.]+) found",
        (lambda found: f"a string is needed, and this is {kind_named(found[1] or found[2])}"),
    )


@cache
def _compiled_rules() -> Sequence[tuple[re.Pattern[str], str | _Wording]]:
    """The rules. Compiling them takes several milliseconds, and most processes never need them."""
    return [(re.compile(rule), words) for rule, words in _rules()]


def translate_error(error: Exception) -> str:
    """The fault of an expression's values, as far as Python's error names it."""
    text = str(error)
    if len(text) > _TEXT_LIMIT:  # Python quotes whole values, and the rules take a time that is quadratic in the text
        text = text[: _TEXT_LIMIT // 2] + text[-_TEXT_LIMIT // 2 :]
    for pattern, words in _compiled_rules():
        found = pattern.search(text)
        if found is not None:
            return found.expand(words) if isinstance(words, str) else words(found)
    return _OTHER_ERROR
