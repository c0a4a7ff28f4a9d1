"""`--generate-ssh-keys` and `--ssh-key`, in a home of their own."""

import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import rsa

from batchai_magics.errors import BatchAIError
from tests.patience import PATIENCE_S

MAKE = "cluster create -s Standard_D2 -t 0 --generate-ssh-keys -n"


@pytest.fixture
def ssh(monkeypatch, tmp_path):
    """The folder where ssh looks for keys."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".ssh"


def key_of(made):
    return made.data["userAccountSettings"]["adminUserSshPublicKey"]


def public_of(private):
    """The public key of a private one, as ssh itself has it where it is installed."""
    if shutil.which("ssh-keygen"):
        argv = ["ssh-keygen", "-y", "-P", "", "-f", private]
        return subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S
        ).stdout.strip()
    key = form.load_ssh_private_key(private.read_bytes(), password=None).public_key()
    return key.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode()


@pytest.mark.slow
def test_ssh_keys_are_made_once_and_fit_each_other(do, ssh):
    made = do(f"{MAKE} one")
    key = (ssh / "id_rsa.pub").read_text().strip()
    assert made.notes[0].startswith("Attempted to find or generate SSH key files id_rsa and id_rsa.pub")
    assert key_of(made) == key == public_of(ssh / "id_rsa")
    assert [path.stat().st_mode & 0o077 for path in (ssh, ssh / "id_rsa")] == [0, 0]
    assert key_of(do(f"{MAKE} two")) == key
    servers = "-s Standard_D2 --disk-count 1 --disk-size 1 --storage-sku Standard_LRS"
    server = do(f"file-server create -n srv {servers} --generate-ssh-keys")
    assert server.data["sshConfiguration"]["userAccountSettings"]["adminUserSshPublicKey"] == key


@pytest.mark.slow
@pytest.mark.parametrize("style", [form.PrivateFormat.OpenSSH, form.PrivateFormat.TraditionalOpenSSL])
def test_a_private_key_that_is_there_is_kept(do, ssh, style):
    do(f"{MAKE} one")
    key = form.load_ssh_private_key((ssh / "id_rsa").read_bytes(), password=None)
    private = key.private_bytes(form.Encoding.PEM, style, form.NoEncryption())
    (ssh / "id_rsa").write_bytes(private)
    (ssh / "id_rsa.pub").unlink()
    assert key_of(do(f"{MAKE} two")) == public_of(ssh / "id_rsa")
    assert (ssh / "id_rsa").read_bytes() == private


@pytest.mark.parametrize("is_key", [True, False])
def test_a_private_key_that_cannot_be_read_is_told_and_kept(do, ssh, is_key):
    locked = b"no key at all"
    if is_key:
        key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
        secret = form.BestAvailableEncryption(b"hush")
        locked = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, secret)
    ssh.mkdir()
    (ssh / "id_rsa").write_bytes(locked)
    with pytest.raises(BatchAIError, match=r"id_rsa cannot be read: .*\n.*ssh-keygen -y -f") as caught:
        do(f"{MAKE} one")
    assert caught.value.exit_code == 1
    assert (ssh / "id_rsa").read_bytes() == locked
    assert not (ssh / "id_rsa.pub").exists()
    assert len(do("cluster list")) == 0


@pytest.mark.slow
def test_the_public_key_of_a_home_is_taken_and_none_is_made_unasked(do, ssh):
    assert key_of(do("cluster create -s Standard_D2 -t 0 -n none")) is None
    assert not ssh.exists()
    do(f"{MAKE} one")
    assert key_of(do("cluster create -s Standard_D2 -t 0 -n two")) == public_of(ssh / "id_rsa")
    given = do(f"cluster create -s Standard_D2 -t 0 -n three -k {ssh}/id_rsa.pub")
    assert key_of(given) == public_of(ssh / "id_rsa")
