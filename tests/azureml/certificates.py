"""A certificate authority of one test session, and the certificate of Azure's hosts that it signs."""

from __future__ import annotations

import datetime
import functools
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOSTS = (
    "management.azure.com",
    "login.microsoftonline.com",
    "*.api.azureml.ms",
    "*.blob.core.windows.net",
    "*.file.core.windows.net",
)


@dataclass(frozen=True)
class Certificates:
    """The bundle that clients trust, and what the server shows."""

    authority: bytes
    server: bytes

    def write_authority(self, file: Path) -> Path:
        """Writes what a client names in REQUESTS_CA_BUNDLE."""
        file.write_bytes(self.authority)
        return file

    def server_context(self) -> ssl.SSLContext:
        """What the server wraps its sockets with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:  # the library reads certificates from files only
            file.write(self.server)
            file.flush()
            context.load_cert_chain(file.name)
        return context


@functools.cache
def make_certificates() -> Certificates:
    """The certificates of this process."""
    authority, authority_key = _signed("stand-in authority")
    server, key = _signed("stand-in", authority, authority_key)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificates(authority.public_bytes(Encoding.PEM), server.public_bytes(Encoding.PEM) + private)


def _signed(
    name: str, issuer: x509.Certificate | None = None, issuer_key: ec.EllipticCurvePrivateKey | None = None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.timezone.utc)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key or key, hashes.SHA256()), key
