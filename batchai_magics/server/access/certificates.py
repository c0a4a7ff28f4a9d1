"""TLS certificates for `--tls self`: a local certificate authority in the server's home, and what it signs.

Made with `cryptography`, which is a dependency anyway; trustme is meant for tests.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from batchai_magics.backends.folders.private_files import write
from batchai_magics.server.server_home import AUTHORITY_FILE, TlsFiles

AUTHORITY_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=397)  # the longest that browsers accept
RENEWAL_WINDOW = timedelta(days=30)  # before expiry
_CLOCK_SKEW = timedelta(hours=1)  # between this machine and clients
_KEY_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class _KeyPair:
    """Two files: a certificate (with its chain), and its private key."""

    certificate: Path
    key: Path


def server_certificate(folder: Path, names: Sequence[str], now: datetime | None = None) -> TlsFiles:
    """A certificate for these names, issued again if it is missing, has other names or expires soon."""
    moment = now or datetime.now(timezone.utc)
    authority = _KeyPair(folder / AUTHORITY_FILE, folder / "ca.key")
    leaf = _KeyPair(folder / "server.pem", folder / "server.key")
    if not _is_valid(authority.certificate, (), moment):
        _make_authority(authority, moment)
        leaf.certificate.unlink(missing_ok=True)
    if not _is_valid(leaf.certificate, names, moment):
        _make_leaf(leaf, authority, names, moment)
    return TlsFiles(leaf.certificate, leaf.key, authority.certificate)


def _is_valid(file: Path, names: Sequence[str], now: datetime) -> bool:
    if not file.exists():
        return False
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    if certificate.not_valid_after_utc - RENEWAL_WINDOW < now:
        return False
    if not names:
        return True
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = map(str, alternatives.get_values_for_type(x509.IPAddress))
    return {*alternatives.get_values_for_type(x509.DNSName), *addresses} == set(names)


def _make_authority(pair: _KeyPair, now: datetime) -> None:
    key, name = ec.generate_private_key(ec.SECP256R1()), _name("batchai serve: authority of this machine")
    builder = _builder(key, now, AUTHORITY_LIFETIME).subject_name(name).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage("key_cert_sign"), critical=True)
    _save(pair, key, builder.sign(key, hashes.SHA256()))


def _make_leaf(pair: _KeyPair, authority: _KeyPair, names: Sequence[str], now: datetime) -> None:
    issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes())
    issuer_key = load_pem_private_key(authority.key.read_bytes(), None)
    assert isinstance(issuer_key, Key), "as we made it"
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(key, now, LEAF_LIFETIME).subject_name(_name(names[0][:64])).issuer_name(issuer.subject)
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    builder = builder.add_extension(alternatives, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage("digital_signature"), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    issuer_key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(issuer_key_id, critical=False)
    _save(pair, key, builder.sign(issuer_key, hashes.SHA256()), issuer)


def _builder(key: Key, now: datetime, lifetime: timedelta) -> x509.CertificateBuilder:
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(key_id, critical=False)
    )


def _save(pair: _KeyPair, key: Key, *certificates: x509.Certificate) -> None:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write(pair.key, private.decode())
    write(pair.certificate, b"".join(part.public_bytes(Encoding.PEM) for part in certificates).decode())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*uses: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{name: name in uses for name in _KEY_USAGES})
