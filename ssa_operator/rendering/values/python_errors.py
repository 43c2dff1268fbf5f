"""Translates Python's errors in expressions into words that template authors know.

Promises:
- The message contains no value, because a value may be a Secret's content: only kinds of values, and names that the
  template contains.
- The message contains no name of a Python class, module or function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ssa_operator.rendering.values.manifest_values import kind_named

ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The exceptions that Python raises for an expression whose values don't fit."""

_TEXT_LIMIT = 1000
"""Characters of an error that are read: its beginning and its end."""

_NAMELESS_VALUE = "the format asks for a value by a name that is not among those that it is given"

_OTHER_ERROR = "a value is not of the kind, or not in the range, that this needs"

_INTERNAL_FUNCTIONS = frozenset({"call", "filtered", "applied", "tested", "reading", "<lambda>"})
"""Functions of the renderer between the template and the function that it calls."""

_STRING = "(str|Indented|Json|Markup|Text)"

_KIND = r"([\w.]+)"

_JOINING = "; ~ joins values as text"

_ARGUMENTS = "{1.name} was given too many or too few arguments"

_RULES = (
    (rf"unsupported operand type\(s\) for (\+): '{_STRING}' and '{_KIND}'",
     f"{{1}} can't be used with {{2.kind}} and {{3.kind}}{_JOINING}"),
    (rf"unsupported operand type\(s\) for (\+): '{_KIND}' and '{_STRING}'",
     f"{{1}} can't be used with {{2.kind}} and {{3.kind}}{_JOINING}"),
    (rf"unsupported operand type\(s\) for (.+?)(?: or pow\(\))?: '{_KIND}' and '{_KIND}'",
     "{1} can't be used with {2.kind} and {3.kind}"),
    (rf"can only concatenate {_STRING} \(not \"{_KIND}\"\)",
     f"+ can't be used with {{1.kind}} and {{2.kind}}{_JOINING}"),
    (rf"can only concatenate (\w+) \(not \"{_KIND}\"\)", "+ can't be used with {1.kind} and {2.kind}"),
    (rf"can't multiply sequence by non-int of type '{_KIND}'", "* can't repeat a string or a list by {1.kind}"),
    (rf"'([<>]=?)' not supported between instances of '{_KIND}' and '{_KIND}'",
     "{1} can't compare {2.kind} with {3.kind}"),
    (rf"bad operand type for (?:unary .|abs\(\)): '{_KIND}'", "{1.kind} is not a number"),
    (rf"'{_KIND}' object is not (?:iterable|reversible)", "{1.kind} has no items to iterate over"),
    (rf"cannot unpack non-iterable {_KIND} object", "{1.kind} can't be unpacked into several names"),
    (rf"argument of type '{_KIND}' is not", "{1.kind} has no items that `in` could find"),
    (r"argument of type .* is not a container", "the value after `in` has no items"),
    (r"object of type 'generator' has no len\(\)", "the items are not a list yet; write | list before it"),
    (rf"object of type '{_KIND}' has no len\(\)", "{1.kind} has no length"),
    (rf"unhashable type: '{_KIND}'", "{1.kind} can't be a key or a unique item"),
    (rf"'{_KIND}' object cannot be interpreted as an integer", "{1.kind} is not a whole number"),
    (rf"type {_KIND} doesn't define __round__", "{1.kind} can't be rounded"),
    (rf"'{_KIND}' object is not subscriptable", "{1.kind} has no fields and no items"),
    (rf"'{_KIND}' object (?:has no attribute|does not support)", "{1.kind} can't be used this way"),
    (r"attribute name must be string", "the name of a field must be a string"),
    (r"(?:slice|list|tuple|string|range) (?:indices|index) must be integers", "a position must be a whole number"),
    (r"^Range too big.*\((\d+)\)", "the range has more than {1} numbers"),
    (r"division by zero|modulo by zero|division or modulo", "division by zero"),
    (r"^macro '(\w+)' takes no keyword argument '(\w+)'", "macro {1} has no argument {2}"),
    (r"^macro '(\w+)' takes not more than (\d+)", "macro {1} takes not more than {2} arguments"),
    (r"^macro '(\w+)' was invoked with two values", "macro {1} was given `caller` twice"),
    (r"multiple values for (?:keyword )?argument '(\w+)'", "the argument {1} is given twice"),
    (r"([\w.<>]+)\(\) missing \d+ required .*arguments?: (.*)", "{1.name} needs more arguments: {2}"),
    (r"([\w.<>]+)\(\) takes no (?:keyword )?arguments", "{1.name} takes no such arguments"),
    (r"([\w.<>]+)\(\) takes .*arguments?\b.*(?:given|\d)", _ARGUMENTS),
    (r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'", "{1.name} has no argument {2}"),
    (r"^'(\w+)' is an invalid keyword argument", "there is no argument {1}"),
    (r"^(\w+) expected (?:at (?:most|least) )?\d+ arguments?, got", _ARGUMENTS),
    (r"(?:not enough|too many) values to unpack", "an item has more or fewer parts than there are names for them"),
    (r"not enough arguments for format string|^(?:Replacement index|tuple index)",
     "the format asks for more values than it is given"),
    (r"not all arguments converted during string formatting", "the format asks for fewer values than it is given"),
    (r"format requires a mapping", "the format asks for values by name; give it a mapping"),
    (r"^(%\w) format: ", "the format asks for a number with {1}, and is given something else"),
    (r"unsupported format character|[Uu]nknown format code|[Ii]nvalid format|format specifier",
     "the format has a part that doesn't exist, or not for this kind of value"),
    (r"could not convert string to float|invalid literal for int", "the string is not a number"),
    (r"update sequence element #\d+", "a mapping can be made of a mapping, or of a list of pairs"),
    (r"is not in list|not in tuple|substring not found", "the value is not in the list or the text"),
    (r"keywords must be strings", "the names behind ** must be strings"),
    (r"sum\(\) can't sum strings", "sum adds numbers; join joins strings"),
    (rf"must be str(?: or None)?, not {_KIND}", "a string is needed, and this is {1.kind}"),
    (rf"expected str instance, {_KIND} found", "a string is needed, and this is {1.kind}"),
)  # fmt: skip
"""Python's errors, and the words for authors; the first match counts."""


class _Word(str):
    """A part of an error of Python that a message shows."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The words for the type of this name."""
        return kind_named(self)

    @property
    def name(self) -> str:
        """The name that templates use for the function."""
        own = self.rpartition(".")[2].removeprefix("do_").removeprefix("test_").lstrip("_")
        return "the call" if own in _INTERNAL_FUNCTIONS else own


def reword(text: str, rules: Iterable[tuple[str, str]]) -> str | None:
    """The words of the first rule whose pattern is in the text, with its groups; None without such a rule."""
    for pattern, words in rules:  # the patterns are compiled when the first one is needed: that takes milliseconds
        if found := re.search(pattern, text):
            return words.format(*map(_Word, (found[0], *found.groups(""))))
    return None


def translate_error(error: Exception) -> str:
    """The fault of an expression's values, as far as Python's error names it."""
    text = str(error)
    if len(text) > _TEXT_LIMIT:  # Python quotes whole values, and the rules take a time that is quadratic in the text
        text = text[: _TEXT_LIMIT // 2] + text[-_TEXT_LIMIT // 2 :]
    return reword(text, _RULES) or (_NAMELESS_VALUE if isinstance(error, KeyError) else _OTHER_ERROR)
