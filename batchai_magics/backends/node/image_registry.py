"""Private image registries: which one holds an image, and a sign-in that lasts for one pull.

Docker and podman read the password from a file. It is made for the pull, in the job's own folder, for this
user's eyes alone, and is gone after it. What a user is signed in to otherwise plays no part. Only the
standard library is imported: a supervisor has to start fast.
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

HUB = "https://index.docker.io/v1/"  # what Docker Hub is called in a file of passwords
HUB_HOSTS = ("docker.io", "index.docker.io", "registry-1.docker.io")


def image_name(server_url: str, image: str) -> str:
    """The full name of a registry's image: `https://me.azurecr.io` and `tf:1` give `me.azurecr.io/tf:1`."""
    server = server_url.partition("://")[2] or server_url
    server = "docker.io" if server.partition("/")[0] in HUB_HOSTS else server.rstrip("/")
    return image if not server or image.startswith(f"{server}/") else f"{server}/{image}"


def server_of(image: str) -> str:
    """The host (and port) that a full image name begins with; Docker Hub's when it begins with none."""
    first, slash, _ = image.partition("/")
    is_host = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_host and first not in HUB_HOSTS else HUB


@contextlib.contextmanager
def signed_in(folder: Path, image: str, *, username: str, password: str) -> Iterator[dict[str, str]]:
    """Signs in to the image's registry; gives the variables by which docker and podman know of it."""
    forget(folder)
    folder.mkdir(mode=0o700)
    try:
        file = folder / "config.json"
        token = base64.b64encode(f"{username}:{password}".encode()).decode()
        _write_private(file, {**_docker_context(folder), "auths": {server_of(image): {"auth": token}}})
        env = {"DOCKER_CONFIG": str(folder), "REGISTRY_AUTH_FILE": str(file)}
        if is_loopback(server_of(image)):
            # Docker speaks plain HTTP to a registry on this machine by itself; podman has to be told.
            conf = folder / "registries.conf"
            conf.write_text(f"[[registry]]\nlocation = {json.dumps(server_of(image))}\ninsecure = true\n")
            env["CONTAINERS_REGISTRIES_CONF"] = str(conf)
        yield env
    finally:
        forget(folder)


def forget(folder: Path) -> None:
    """Deletes what a sign-in left, if it left anything."""
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
    """Where docker's engine is, as the user's own configuration says: a sign-in does not change that."""
    own = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    try:
        chosen = json.loads((own / "config.json").read_text(encoding="utf-8")).get("currentContext")
    except (OSError, ValueError, AttributeError):  # no docker, or no file of its own
        return {}
    if not isinstance(chosen, str):
        return {}
    (folder / "contexts").symlink_to((own / "contexts").absolute())
    return {"currentContext": chosen}


def _write_private(file: Path, body: dict[str, Any]) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        json.dump(body, stream)
