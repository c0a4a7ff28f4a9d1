"""Private image registries: the registry of an image, and a sign-in that lasts for one pull.

Docker and podman read the password from a file in the job's folder, readable only by this user and deleted
after the pull. The user's other sign-ins are ignored. Only the standard library is imported, because a
supervisor has to start fast.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HUB = "https://index.docker.io/v1/"  # Docker Hub's name in credential files
HUB_HOSTS = ("docker.io", "index.docker.io", "registry-1.docker.io")


def image_name(server_url: str, image: str) -> str:
    """The full name of an image: `https://me.azurecr.io` and `tf:1` give `me.azurecr.io/tf:1`."""
    server = server_url.partition("://")[2] or server_url
    server = "docker.io" if server.partition("/")[0] in HUB_HOSTS else server.rstrip("/")
    return image if not server or image.startswith(f"{server}/") else f"{server}/{image}"


def server_of(image: str) -> str:
    """The registry host (and port) in a full image name; Docker Hub's if it has none."""
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host and first not in HUB_HOSTS else HUB


@contextlib.contextmanager
def signed_in(folder: Path, image: str, *, username: str, password: str) -> Iterator[dict[str, str]]:
    """Signs in to the image's registry; yields the environment for docker and podman."""
    delete_credentials(folder)
    folder.mkdir(mode=0o700)
    try:
        file = folder / "config.json"
        token = base64.b64encode(f"{username}:{password}".encode()).decode()
        _write_private(file, {**_docker_context(folder), "auths": {server_of(image): {"auth": token}}})
        env = {"DOCKER_CONFIG": str(folder), "REGISTRY_AUTH_FILE": str(file)}
        if is_loopback(server_of(image)):
            # Docker uses plain HTTP for a registry on this machine automatically; podman has to be
            # configured.
            conf = folder / "registries.conf"
            conf.write_text(f"[[registry]]\nlocation = {json.dumps(server_of(image))}\ninsecure = true\n")
            env["CONTAINERS_REGISTRIES_CONF"] = str(conf)
        yield env
    finally:
        delete_credentials(folder)


def delete_credentials(folder: Path) -> None:
    """Deletes the credentials of a sign-in, if any."""
    shutil.rmtree(folder, ignore_errors=True)


def is_loopback(server: str) -> bool:
    """Whether a registry is on this machine."""
    import ipaddress  # it takes longer than all the rest here

    host = server.rpartition(":")[0] or server
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _docker_context(folder: Path) -> dict[str, str]:
    """The docker context (which daemon to use) of the user's own configuration, unaffected by the sign-in."""
    own = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        chosen = json.loads((own / "config.json").read_text(encoding="utf-8")).get("currentContext")
    except (OSError, ValueError, AttributeError):  # no docker, or no configuration file
        return {}
    if not isinstance(chosen, str):
        return {}
    (folder / "contexts").symlink_to((own / "contexts").absolute())
    return {"currentContext": chosen}


def _write_private(file: Path, body: dict[str, Any]) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(body, stream)
