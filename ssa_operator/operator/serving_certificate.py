"""The certificate of the HTTP server, from two files that something else renews.

Promises:
- New connections use a renewed pair at most CHECK_INTERVAL seconds after both files exist, even if it has another type
  of key.
- If a pair can't be used, the operator logs that once and keeps the previous pair.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from msgspec import Struct

log = logging.getLogger("ssa_operator")

CHECK_INTERVAL = 10.0
"""Seconds."""


class CertificateError(Exception):
    """The files are not a certificate with its key; the message names them."""


class CertificateFiles(Struct, frozen=True, kw_only=True):
    """The files, in PEM: the certificate with its intermediates, and its private key."""

    certificate: Path
    key: Path

    def read(self) -> tuple[bytes, bytes]:
        """Their contents. Raises CertificateError."""
        try:
            return self.certificate.read_bytes(), self.key.read_bytes()
        except OSError as error:
            raise CertificateError(f"{error.filename}: {error.strerror}") from error

    def __str__(self) -> str:
        return f"{self.certificate} and {self.key}"


class ServerContext:
    """`context` gives each new connection the certificate of `current`, which may be replaced at any time."""

    def __init__(self, current: ssl.SSLContext) -> None:
        self.current = current
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # OpenSSL calls it for each connection, even without a name. A context in use would keep a pair of another type
        # of key beside the new one, and lose both if it refuses the new one.
        self.context.sni_callback = self._use_current

    def _use_current(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self.current


class ServingCertificate:
    """`context` gives each connection the pair of the files. Raises CertificateError if they hold none."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._problem = ""
        self._pair, current = self._load()
        self._server = ServerContext(current)
        self.context = self._server.context

    async def follow(self) -> None:
        """Use renewed files, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            self.renew()

    def renew(self) -> None:
        """Use the files if they changed."""
        try:
            if self._files.read() == self._pair:
                self._problem = ""
                return
            self._pair, self._server.current = self._load()
        except CertificateError as error:
            if self._problem != str(error):
                log.warning("the certificate is not renewed: %s", error)
                self._problem = str(error)
            return
        self._problem = ""
        log.info("the certificate of the HTTP server is renewed from %s", self._files.certificate)

    def _load(self) -> tuple[tuple[bytes, bytes], ssl.SSLContext]:
        pair, context = self._files.read(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            # Without a password OpenSSL would ask for it on the terminal.
            context.load_cert_chain(self._files.certificate, self._files.key, password="")
        except (ssl.SSLError, OSError) as error:
            reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
            raise CertificateError(f"{self._files} are no certificate with its unencrypted key: {reason}") from error
        if self._files.read() != pair:
            raise CertificateError(f"{self._files} change at this moment")
        return pair, context
