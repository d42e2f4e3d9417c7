"""Certificates of a test's own authority, as the files that a configuration names."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import trustme

from annulet.broker.settings.tls_settings import TlsSettings


class Certificates:
    """One authority and what it issued, below a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.authority = trustme.CA()
        self.authority_file = folder / "authority.pem"
        self.authority.cert_pem.write_to_path(self.authority_file)
        self.certificate, self.key = self.issue("server", "localhost", "127.0.0.1")

    def issue(
        self, file_name: str, *identities: str, common_name: str | None = None, ends: dt.datetime | None = None
    ) -> tuple[Path, Path]:
        """Issue a certificate; return its file and that of its key."""
        issued = self.authority.issue_cert(
            *identities, common_name=common_name, organization_name="Acme, Inc.", not_after=ends
        )
        certificate, key = self.folder / f"{file_name}.pem", self.folder / f"{file_name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return certificate, key

    def settings(self, **others: object) -> TlsSettings:
        """Return settings of a listener with the server's certificate."""
        values = {"certificate": self.certificate, "key": self.key, "client_ca": self.authority_file, **others}
        return TlsSettings(**values)  # type: ignore[arg-type]

    def client_context(self, pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """Return a context that trusts the authority, and shows a certificate when one is given."""
        context = ssl.create_default_context(cafile=str(self.authority_file))
        if pair is not None:
            context.load_cert_chain(*pair)
        return context
