"""Options of the virtual machines of clusters and file servers: admin account, image, subnet."""

from __future__ import annotations

import getpass
import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchai_magics.backends.base import Backend
from batchai_magics.errors import command_error
from batchai_magics.models.documents.description import read_file

_KEY = Path("~/.ssh/id_rsa")
GENERATED = (
    "Attempted to find or generate SSH key files id_rsa and id_rsa.pub under ~/.ssh to allow SSH access to "
    "the nodes. If using machines without permanent storage, back up your keys to a safe location."
)
ALIASES = {
    "UbuntuLTS": ("Canonical", "UbuntuServer", "16.04-LTS"),
    "UbuntuDSVM": ("microsoft-ads", "linux-data-science-vm-ubuntu", "linuxdsvmubuntu"),
}
_PARTS = ("publisher", "offer", "sku", "version")
_RESOURCE = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/[^/]+(/[^/]+/[^/]+)+", re.IGNORECASE
)


def object_of(body: Mapping[str, Any], field: str, path: str) -> dict[str, Any]:
    """The object in a field of a file's description, empty if it is missing; `path` is for errors.

    Raises:
        UsageError: The field has something other than an object.
    """
    value = body.get(field) or {}
    if not isinstance(value, Mapping):
        raise command_error(f"{path}: must be an object, not {value!r:.40}.", hint="Correct the file.")
    return dict(value)


def account_settings(arguments: Namespace, of_file: Mapping[str, Any], backend: Backend) -> dict[str, Any]:
    """The `userAccountSettings`: those of the file, overridden by the options.

    A backend without logins requires neither password nor key.
    """
    name = _first(arguments.user_name, of_file.get("adminUserName"), getpass.getuser)
    if not name:
        raise command_error("Please provide admin user name.", hint="Add -u.")
    password = arguments.password or of_file.get("adminUserPassword")
    key = _public_key(arguments, of_file.get("adminUserSshPublicKey"), is_needed=not password)
    if backend.capabilities.logins and not (password or key):
        raise command_error(
            "Please provide admin user password or ssh key.", hint="Add -p, -k or --generate-ssh-keys."
        )
    chosen = {"adminUserName": name, "adminUserPassword": password, "adminUserSshPublicKey": key}
    return {**of_file, **{field: value for field, value in chosen.items() if value}}


def notes(arguments: Namespace) -> tuple[str, ...]:
    """A message about generated SSH keys."""
    return (GENERATED,) if arguments.generate_ssh_keys else ()


def _first(option: str | None, of_file: str | None, of_system: Any) -> str:
    if option is not None:
        return option
    return of_file or str(of_system())


def _public_key(arguments: Namespace, of_file: str | None, *, is_needed: bool) -> str | None:
    if arguments.ssh_key:
        return _checked_key(arguments.ssh_key)
    if of_file:
        return of_file
    public = _KEY.expanduser().with_suffix(".pub")
    if arguments.generate_ssh_keys and not public.exists():
        _generate(public)
    is_wanted = is_needed or arguments.generate_ssh_keys
    return read_file(public).strip() if is_wanted and public.is_file() else None


def _checked_key(key_or_file: str) -> str:
    path = Path(key_or_file).expanduser()
    key = read_file(path) if path.is_file() else key_or_file
    if not key.lstrip().startswith(("ssh-", "ecdsa-")):
        raise command_error(
            "Incorrect ssh public key value.", hint="Give the key or the name of its .pub file."
        )
    return key.strip()


def _generate(public: Path) -> None:
    """Generates a key pair in ~/.ssh; an existing private key is kept."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = public.with_suffix("")
    public.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if private.exists():
        key = _private_key(private)
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=3072)
        text = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
        private.touch(mode=0o600)
        private.write_bytes(text)
    shared = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    public.write_bytes(shared + b"\n")


def _private_key(path: Path) -> Any:
    """Reads a private key in OpenSSH or PEM format, as ssh-keygen or `az` write it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    data = read_file(path).encode()
    load = load_ssh_private_key if "BEGIN OPENSSH" in data.decode() else load_pem_private_key
    try:
        return load(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        hint = f"Make its public key with `ssh-keygen -y -f {path} > {path}.pub`, or use -k or -p."
        raise command_error(f"The private key {path} cannot be read: {error}", hint=hint) from None


def image_reference(image: str | None, custom_image: str | None) -> dict[str, Any] | None:
    """The `imageReference` of the options; None without them."""
    if custom_image and not image:
        raise command_error("You need to specify --image argument with information about the custom image")
    if custom_image and not is_resource_id(custom_image):
        raise command_error("Ill-formed custom image resource id")
    if not image:
        return None
    reference = _of_parts(image) if ":" in image else _of_alias(image)
    return {**reference, "virtualMachineImageId": custom_image} if custom_image else reference


def subnet_reference(subnet: str | None) -> dict[str, Any] | None:
    """The `subnet` of the option; None without it."""
    if subnet and not is_resource_id(subnet):
        raise command_error("Ill-formed subnet resource id")
    return {"id": subnet} if subnet else None


def is_resource_id(text: str) -> bool:
    """Whether the text is a resource id of any provider."""
    return _RESOURCE.fullmatch(text) is not None


def _of_parts(image: str) -> dict[str, Any]:
    values = image.split(":")
    if len(values) != len(_PARTS):
        raise command_error(
            '--image must have format "publisher:offer:sku:version" or "publisher:offer:sku:"'
        )
    parts = dict(zip(_PARTS, values, strict=True))
    for part in _PARTS[:-1]:
        if not parts[part]:
            raise command_error(f"Image {part} must be provided in --image argument")
    return {part: value for part, value in parts.items() if value}


def _of_alias(image: str) -> dict[str, Any]:
    known_image = next((parts for alias, parts in ALIASES.items() if alias.lower() == image.lower()), None)
    if known_image is None:
        known = ", ".join(ALIASES)
        raise command_error(f'Unsupported image alias "{image}", supported aliases are {known}')
    return dict(zip(_PARTS, known_image, strict=False))
