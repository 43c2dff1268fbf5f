"""TLS settings: whom we trust, and the client certificate that we show.

Promises:
- The server's certificate is always verified, unless the kubeconfig says `insecure-skip-tls-verify`.
- A private key given as data touches the disk only while OpenSSL reads it, in a folder that only we can read.
"""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ssa_operator.kube.auth.credential_types import Certificate, CredentialsError


@dataclass(frozen=True, slots=True)
class Authority:
    """Which certificates are trusted: PEM text, '' for the system's authorities; makes TLS settings when called."""

    origin: str
    pem: str = ""
    verify: bool = True

    def __call__(self, certificate: Certificate | None) -> ssl.SSLContext:
        """The settings with a client certificate. Raises CredentialsError for unusable certificates and keys."""
        try:
            context = ssl.create_default_context(cadata=self.pem or None)
        except ssl.SSLError as error:
            raise CredentialsError(
                f"{self.origin}: the certificate authority is no PEM certificate: {error}"
            ) from error
        # Python 3.13 made this flag a default; clusters' authorities without key usage extensions are common.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            self._show(context, certificate)
        return context

    def _show(self, context: ssl.SSLContext, certificate: Certificate) -> None:
        with tempfile.TemporaryDirectory(prefix="ssa-operator-") as folder:
            chain, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            chain.write_bytes(certificate.certificate)
            key.write_bytes(certificate.key)
            try:
                context.load_cert_chain(chain, key)
            except ssl.SSLError as error:
                message = f"{self.origin}: the client certificate and its key can't be used together: {error}"
                raise CredentialsError(message) from error
