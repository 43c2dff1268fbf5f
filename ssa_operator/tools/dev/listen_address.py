"""The address of the HTTP server of `dev`.

Promises:
- If another process has the default port, `dev` takes the next free one.
- A port that the user names is taken or refused before anything starts.
"""

from __future__ import annotations

import contextlib
import socket

from ssa_operator.operator.process.streams import CommandError

ATTEMPTS = 100
"""Ports that are tried, from the first one on."""

Address = tuple[str | None, int]
"""A host (None: all addresses) and a port."""


def listen_address(listen: Address | None, *, named: bool) -> Address | None:
    """The address to listen on: the given one, or the next free port if the user has not `named` it. None is no server.
    Raises CommandError.
    """
    if listen is None or listen[1] == 0:
        return listen
    host, first = listen
    for port in range(first, min(first + (1 if named else ATTEMPTS), 65536)):
        problem = _bind_problem(host, port)
        if not problem:
            return host, port
    raise CommandError(f"can't listen on {host or '*'}:{first}: {problem}; choose another with --listen")


def _bind_problem(host: str | None, port: int) -> str:
    """Why no server can listen on a port, '' if one can."""
    try:
        with contextlib.ExitStack() as sockets:
            for family, kind, protocol, _, address in socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                listener = sockets.enter_context(socket.socket(family, kind, protocol))
                # As asyncio does: a port of closed connections is free.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return ""
