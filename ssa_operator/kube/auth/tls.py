"""Creates TLS contexts from certificate authorities and client certificates.

Promises:
- A file of certificate authorities is read for each context, because it is replaced when the authority is rotated.
- The client verifies the server's certificate, unless the kubeconfig has `insecure-skip-tls-verify`. Then it warns.
- A private key that the operator has as data is on disk only while OpenSSL reads it, in a folder that only the
  operator's user can read.
"""

from __future__ import annotations

import logging
import ssl
import tempfile
from pathlib import Path

from msgspec import Struct

from ssa_operator.kube.auth.credential_types import Certificate, CredentialsError

log = logging.getLogger("ssa_operator")


class TLSConfig(Struct, frozen=True):
    """How the client verifies the server's certificate. A call creates the TLS context for a client certificate."""

    origin: str
    """The kubeconfig's entry or the file, for errors."""

    pem: str = ""
    """The trusted certificate authorities, '' for those of the system."""

    file: Path | None = None
    """The file of `pem`, which may have others later. None if they can't change."""

    verify: bool = True

    def __call__(self, certificate: Certificate | None) -> ssl.SSLContext:
        """The TLS context with a client certificate. Raises CredentialsError for unusable certificates and keys."""
        try:
            context = ssl.create_default_context(cadata=self._authorities() or None)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsError(
                f"{self.origin}: the certificate authority is not a PEM certificate: {error}"
            ) from error
        # This flag is a default since Python 3.13; many clusters' authorities have no key usage extension.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verify:
            log.warning(
                "%s has insecure-skip-tls-verify: the API server's certificate is not verified, so an attacker in "
                "between can read and change everything; set certificate-authority-data instead",
                self.origin,
            )
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            self._load(context, certificate)
        return context

    def _authorities(self) -> str:
        """The certificate authorities as the file has them now."""
        if self.file is None:
            return self.pem
        try:
            pem = self.file.read_text("ascii", "ignore")
        except OSError as error:
            raise CredentialsError(f"{self.origin}: the certificate authority can't be read: {error}") from error
        if not pem.strip():
            # Without authorities of its own, the context would trust those of the system.
            raise CredentialsError(f"{self.origin}: the certificate authority {self.file} is empty")
        return pem

    def _load(self, context: ssl.SSLContext, certificate: Certificate) -> None:
        try:
            load_key_pair(context, certificate.certificate, certificate.key)
        except (ssl.SSLError, ValueError) as error:
            message = f"{self.origin}: the client certificate and its key can't be used together: {error}"
            raise CredentialsError(message) from error
        except OSError as error:
            message = f"{self.origin}: the client certificate needs a temporary file: {error.strerror}"
            raise CredentialsError(message) from error


def load_key_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key, PEM, into a context. Raises ssl.SSLError, OSError or ValueError."""
    with tempfile.TemporaryDirectory(prefix="ssa-operator-") as folder:
        chain_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        chain_file.write_bytes(certificate)
        key_file.write_bytes(key)
        context.load_cert_chain(chain_file, key_file)
