"""Options of the machines of clusters, file servers and jobs: admin account, image, subnet, mounts."""

from __future__ import annotations

import getpass
import os
import re
import secrets
import string
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchai_magics.backends.base import ACCOUNTS, CONTAINERS, GROUPS, STORAGE, Backend
from batchai_magics.commands.command_context import Context
from batchai_magics.config import DEFAULT_ACCOUNT
from batchai_magics.errors import NotFoundError, command_error
from batchai_magics.models import mount_volumes
from batchai_magics.models.documents.description import read_file
from batchai_magics.models.file_server import FileServer
from batchai_magics.models.mount_volumes import AccountKey, container, file_server, share, with_volumes
from batchai_magics.models.resource_ids import Kind, ResourceId

_PRIVATE_KEY = Path("~/.ssh/id_rsa")
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


def account_settings(
    arguments: Namespace, file_settings: Mapping[str, Any], backend: Backend
) -> dict[str, Any]:
    """The `userAccountSettings`: those of the file, overridden by the options.

    A backend without logins requires neither password nor key.
    """
    name = arguments.user_name
    if name is None:
        name = file_settings.get("adminUserName") or getpass.getuser()
    if not name:
        raise command_error("Please provide admin user name.", hint="Add -u.")
    password = arguments.password or file_settings.get("adminUserPassword")
    key = _public_key(arguments, file_settings.get("adminUserSshPublicKey"), is_needed=not password)
    if backend.capabilities.logins and not (password or key):
        raise command_error(
            "Please provide admin user password or ssh key.", hint="Add -p, -k or --generate-ssh-keys."
        )
    chosen = {"adminUserName": name, "adminUserPassword": password, "adminUserSshPublicKey": key}
    return {**file_settings, **{field: value for field, value in chosen.items() if value}}


def notes(arguments: Namespace) -> tuple[str, ...]:
    """A message about generated SSH keys."""
    return (GENERATED,) if arguments.generate_ssh_keys else ()


def _public_key(arguments: Namespace, file_key: str | None, *, is_needed: bool) -> str | None:
    if arguments.ssh_key:
        path = Path(arguments.ssh_key).expanduser()
        key = read_file(path) if path.is_file() else arguments.ssh_key
        if not key.lstrip().startswith(("ssh-", "ecdsa-")):
            raise command_error(
                "Incorrect ssh public key value.", hint="Give the key or the name of its .pub file."
            )
        return key.strip()
    if file_key:
        return file_key
    public = _PRIVATE_KEY.expanduser().with_suffix(".pub")
    if arguments.generate_ssh_keys and not public.exists():
        _generate(public)
    is_wanted = is_needed or arguments.generate_ssh_keys
    return read_file(public).strip() if is_wanted and public.is_file() else None


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
    public_key = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    public.write_bytes(public_key + b"\n")


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
    if ":" in image:
        reference = _image_parts(image)
    else:
        alias = next((known for known in ALIASES if known.lower() == image.lower()), None)
        if alias is None:
            known = ", ".join(ALIASES)
            raise command_error(f'Unsupported image alias "{image}", supported aliases are {known}')
        reference = dict(zip(_PARTS, ALIASES[alias], strict=False))
    return {**reference, "virtualMachineImageId": custom_image} if custom_image else reference


def subnet_reference(subnet: str | None) -> dict[str, Any] | None:
    """The `subnet` of the option; None without it."""
    if subnet and not is_resource_id(subnet):
        raise command_error("Ill-formed subnet resource id")
    return {"id": subnet} if subnet else None


def is_resource_id(text: str) -> bool:
    """Whether the text is a resource id of any provider."""
    return _RESOURCE.fullmatch(text) is not None


def _image_parts(image: str) -> dict[str, Any]:
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


def account_of(context: Context, arguments: Namespace) -> AccountKey:
    """The account given by options, environment or settings, in that order; empty without one."""
    configured = AccountKey(
        os.environ.get("AZURE_BATCHAI_STORAGE_ACCOUNT") or context.settings.storage_account,
        os.environ.get("AZURE_BATCHAI_STORAGE_KEY") or context.settings.storage_key,
    )
    name, key = arguments.storage_account_name or configured.name, arguments.storage_account_key
    if key or not name:
        return AccountKey(name, key or configured.key)
    if configured.key and name == configured.name:
        return configured
    is_named = arguments.storage_account_name
    return AccountKey(name, key_of(context.backend, name) if is_named else configured.key)


def key_of(backend: Backend, name: str) -> str:
    """The first key of an account; empty for the built-in account, which has none."""
    if name == DEFAULT_ACCOUNT:
        return ""
    try:
        keys = ACCOUNTS.of(backend).keys(name)
    except NotFoundError:
        hint = f"Create it with `batchai storage account create -n {name}`, or give its key."
        raise command_error(f'Cannot find "{name}" storage account.', hint=hint) from None
    if not any(keys):
        raise command_error(f'Cannot find a key for "{name}" storage account.')
    return next(key for key in keys if key)


def with_keys(volumes: Any, backend: Backend) -> Any:
    """The volumes with the key added to each share and container without credentials."""
    if not isinstance(volumes, Mapping):
        return volumes
    keyed = dict(volumes)
    for kind in (mount_volumes.SHARES, mount_volumes.CONTAINERS):
        items = volumes.get(kind)
        if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
            continue  # validation reports it
        keyed[kind] = []
        for item in items:
            name = item.get("accountName")
            is_keyless = isinstance(name, str) and not item.get("credentials")
            key = key_of(backend, name) if is_keyless else ""
            keyed[kind].append({**item, "credentials": {"accountKey": key}} if key else item)
    return keyed


_MISSING = (
    "Please configure Azure Storage account name via AZURE_BATCHAI_STORAGE_ACCOUNT "
    "or provide storage_account value in batchai section of your az configuration file."
)
GROUP = "batchaiautostorage"
SHARE, CONTAINER = "batchaishare", "batchaicontainer"
SHARE_MOUNT, CONTAINER_MOUNT = "autoafs", "autobfs"


def with_mounts(volumes: Any, arguments: Namespace, account: AccountKey, *, owner: ResourceId) -> Any:
    """The volumes of the file and of the options; None without any."""
    added: dict[str, list[dict[str, Any]]] = {}
    if arguments.afs_name:
        _check_mount(account, arguments.afs_mount_path, "Azure File share")
        added[mount_volumes.SHARES] = [share(account, arguments.afs_name, arguments.afs_mount_path)]
    if arguments.bfs_name:
        _check_mount(account, arguments.bfs_mount_path, "Azure Storage Container")
        added[mount_volumes.CONTAINERS] = [container(account, arguments.bfs_name, arguments.bfs_mount_path)]
    if arguments.nfs:
        if not arguments.nfs_mount_path:
            raise command_error("File server relative mount path cannot be empty.")
        server = file_server(_server_id(arguments.nfs, owner), arguments.nfs_mount_path)
        added[mount_volumes.SERVERS] = [{**server, "mountOptions": "rw"}]
    return with_volumes(volumes, added)


def subnet_of_servers(context: Context, nfs: str | None, subnet: Any, *, owner: ResourceId) -> Any:
    """The subnet of a cluster that mounts a file server: the server's, which must match an explicit one."""
    if not nfs:
        return subnet
    server = context.backend.show(_server_id(nfs, owner))
    assert isinstance(server, FileServer)
    server_subnet = server.spec.subnet.to_wire() if server.spec.subnet else None
    if server_subnet and subnet and server_subnet["id"].lower() != str(subnet.get("id")).lower():
        raise command_error("Cluster and mounted NFS must be in the same subnet.")
    return subnet or server_subnet


def _server_id(nfs: str, owner: ResourceId) -> ResourceId:
    if "/" in nfs:
        return ResourceId.parse(nfs)
    return owner.workspace_id.child(Kind.FILE_SERVER, nfs)


def _check_mount(account: AccountKey, path: str, noun: str) -> None:
    if not path:
        raise command_error(f"{noun} relative mount path cannot be empty.")
    if not account.name:
        raise command_error(_MISSING, hint="Or give --storage-account-name.")


def auto_storage(backend: Backend, location: str) -> tuple[dict[str, list[dict[str, Any]]], tuple[str, ...]]:
    """Finds or creates the auto-storage account of a location with its share and container.

    Returns:
        The volumes that mount them, and what was created.
    """
    groups, accounts = GROUPS.of(backend), ACCOUNTS.of(backend)
    notes = [f"BatchAI will use existing {GROUP} resource group for auto-storage account"]
    try:
        groups.show(GROUP)
    except NotFoundError:
        groups.create(GROUP, location)
        notes = [f"Creating {GROUP} resource group for auto-storage account"]
    existing = next((item for item in accounts.list(GROUP) if item.location == location), None)
    if existing:
        name = existing.name
        notes.append(f"Using existing {name} storage account as an auto-storage account")
    else:
        name = "bai" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(12))
        accounts.create(name, GROUP, location)
        notes.append(f"Created auto storage account {name}")
    STORAGE.of(backend).make(f"{name}/{SHARE}")
    CONTAINERS.of(backend).make(f"{name}/{CONTAINER}")
    account = AccountKey(name, accounts.keys(name)[0])
    volumes = {
        mount_volumes.SHARES: [share(account, SHARE, SHARE_MOUNT)],
        mount_volumes.CONTAINERS: [container(account, CONTAINER, CONTAINER_MOUNT)],
    }
    return volumes, tuple(notes)
