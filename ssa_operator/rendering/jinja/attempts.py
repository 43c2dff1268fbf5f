"""`try(expression)`: an expression that may fail is undefined instead of an error.

Promises:
- An expression that fails is undefined, and the reason is the error of its use: `default` and `is defined` accept it.
- What waits goes on waiting: a value of the cluster that is not known yet is no failure.
- Neither the limits of a render nor the sandbox can be escaped: what they refuse stays an error.
- The document depends on what the failed expression read, and the reason quotes no Secret's content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import TemplateError
from jinja2.exceptions import SecurityError

from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.python_errors import ERRORS, translate_error
from ssa_operator.rendering.values.secrecy import HIDDEN_ERROR, quotes_content
from ssa_operator.rendering.values.tracked_values import AwaitedError, TrackedValue, provenance_of
from ssa_operator.rendering.values.undefined import Missing, MissingFieldError

NAME = "try"


def attempt(evaluate: Callable[[], Any]) -> Any:
    """The value of an expression, or undefined with the reason. Raises AwaitedError, LimitError and SecurityError."""
    try:
        return evaluate()
    except (AwaitedError, LimitError, SecurityError):
        raise
    except (TemplateError, *ERRORS) as error:
        if read := provenance_of(error):
            TrackedValue(None, read).read_untracked(by_control=True)
        if quotes_content(error):
            return Missing(HIDDEN_ERROR)
        if isinstance(error, MissingFieldError):
            name, *below = error.path
            return Missing(error.hint, error.owner, name, below=tuple(below))  # type: ignore[arg-type]  # or a position
        return Missing((error.message if isinstance(error, TemplateError) else None) or translate_error(error))
