"""The certificate of the HTTP server, from two files that something else renews.

Promises:
- A renewed pair counts for the next connection, at most CHECK_INTERVAL seconds after both files are there.
- A pair that can't be used is logged once, and the one before it goes on.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("ssa_operator")

CHECK_INTERVAL = 10.0
"""Seconds."""


class CertificateError(Exception):
    """The files are no certificate with its key; the message names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """The files, in PEM: the certificate with its intermediates, and its private key."""

    certificate: Path
    key: Path

    def read(self) -> tuple[bytes, bytes]:
        """Their contents. Raises CertificateError."""
        try:
            return self.certificate.read_bytes(), self.key.read_bytes()
        except OSError as error:
            raise CertificateError(f"{error.filename}: {error.strerror}") from error


class ServingCertificate:
    """A TLS context with the pair of the files. Raises CertificateError if they hold none."""

    def __init__(self, files: CertificateFiles) -> None:
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._files = files
        self._problem = ""
        self._pair = files.read()
        self._load(self.context)

    async def follow(self) -> None:
        """Use renewed files, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            self.renew()

    def renew(self) -> None:
        """Use the files if they changed."""
        try:
            pair = self._files.read()
            if pair == self._pair:
                return
            # The context in use keeps the old pair if a fresh one refuses the new pair.
            self._load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
            self._load(self.context)
        except CertificateError as error:
            if self._problem != str(error):
                log.warning("the certificate is not renewed: %s", error)
                self._problem = str(error)
            return
        self._pair, self._problem = pair, ""
        log.info("the certificate of the HTTP server is renewed from %s", self._files.certificate)

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self._files.certificate, self._files.key)
        except (ssl.SSLError, OSError) as error:
            reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else str(error)
            raise CertificateError(
                f"{self._files.certificate} and {self._files.key} are no certificate with its key: {reason}"
            ) from error
