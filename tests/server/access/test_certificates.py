"""A certificate of one's own: what clients check of it, and when another one is made."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from batchai_magics.server.access.certificates import LEAF_LIFETIME, server_certificate

NAMES = ["127.0.0.1", "localhost", "jobs.example.org"]


def shake_hands(folder: Path, name: str) -> None:
    """A TLS handshake in which the client trusts nothing but the authority."""
    pair = server_certificate(folder, NAMES)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair.certificate, pair.key)
    asking = ssl.create_default_context(cafile=str(pair.authority))
    here, there = socket.socketpair()
    thread = threading.Thread(target=accept, args=(serving, there))
    thread.start()
    try:
        asking.wrap_socket(here, server_hostname=name).close()
    finally:
        here.close()
        thread.join()


def accept(context: ssl.SSLContext, end: socket.socket) -> None:
    try:
        context.wrap_socket(end, server_side=True).close()
    except (ssl.SSLError, OSError):
        end.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_authority_takes_every_name(tmp_path: Path, name: str) -> None:
    shake_hands(tmp_path, name)


def test_client_rejects_a_certificate_for_another_host(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tmp_path, "other.example.org")


def test_keys_are_their_owners_alone(tmp_path: Path) -> None:
    server_certificate(tmp_path, NAMES)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in tmp_path.iterdir())


def test_a_certificate_is_made_anew_for_other_names_and_before_its_end_but_its_authority_stays(
    tmp_path: Path,
) -> None:
    now = datetime.now(timezone.utc)
    first = server_certificate(tmp_path, NAMES, now).certificate.read_bytes()
    authority = (tmp_path / "ca.pem").read_bytes()
    assert server_certificate(tmp_path, NAMES, now + timedelta(days=1)).certificate.read_bytes() == first
    assert server_certificate(tmp_path, NAMES[:2], now).certificate.read_bytes() != first
    second = server_certificate(tmp_path, NAMES, now).certificate.read_bytes()
    assert (
        server_certificate(tmp_path, NAMES, now + LEAF_LIFETIME - timedelta(days=1)).certificate.read_bytes()
        != second
    )
    assert (tmp_path / "ca.pem").read_bytes() == authority
