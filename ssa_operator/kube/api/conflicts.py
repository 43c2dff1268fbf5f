"""Changes of an object that other clients change, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.live_object import LiveObject

ATTEMPTS = 5
"""How often a change is sent to an object that others change meanwhile, as in client-go's `retry.DefaultRetry`."""

Changed = TypeVar("Changed")


async def retry_on_conflict(
    read: Callable[[], Awaitable[LiveObject | None]],
    change: Callable[[LiveObject | None], Awaitable[Changed]],
    *,
    known: LiveObject | None = None,
    is_conflict: Callable[[ApiError], bool] = lambda error: error.conflict or error.already_exists,
) -> Changed:
    """The result of a change of an object as it was read. After a conflict, it is read again. What is `known` of the
    object is not read first. Raises the last conflict.
    """
    attempts = 1
    current = await read() if known is None else known
    while True:
        try:
            return await change(current)
        except ApiError as error:
            if attempts == ATTEMPTS or not is_conflict(error):
                raise
        attempts += 1
        current = await read()
