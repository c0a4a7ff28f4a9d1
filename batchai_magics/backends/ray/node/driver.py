"""The program that is connected to Ray for the backend, in a process of its own: a driver may be aborted.

Started as `ADDRESS HOME PROGRAMS`. Each line of standard input is a request in JSON, each line of standard
output its answer. It ends after its input, once the actors that it has started have their variables.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

from batchai_magics.backends.ray.node import cluster, queue

CONNECT_S = 10.0  # how long the cluster may take to accept a connection
HAND_OVER_S = 60.0  # how long actors may take to start
INSTALL = "Install it there: pip install 'batchai-magics[ray]', of the version that the cluster has."


class ConnectionRefused(Exception):
    """Why there is no connection: a code, a sentence, and a hint."""


def main() -> None:
    """Serves requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # Ray prints to stdout
    address, home, programs = sys.argv[1:]
    pending: list[queue.Start] = []

    def reconcile() -> None:
        node = cluster.home_node(programs)
        pending[:] = [*queue.unsettled(pending), *queue.reconcile(home, programs, node)]

    requests: dict[str, Callable[..., object]] = {
        "nodes": lambda: [node._asdict() for node in cluster.nodes()],
        "actors": lambda: sorted(cluster.living_actors()),
        "session": cluster.session,
        "reconcile": reconcile,
        "wake": wake,
    }
    answer: object
    try:
        connect(address)
    except ConnectionRefused as refusal:
        print(json.dumps({"refusal": refusal.args}), file=answers, flush=True)
        return
    print(json.dumps({"result": "connected"}), file=answers, flush=True)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = {"result": requests[name](*arguments)}
        except Exception as error:  # noqa: BLE001 whatever Ray raises, the backend reports
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    queue.unsettled(pending, HAND_OVER_S)


def connect(address: str) -> None:
    """Connects to the cluster.

    Raises:
        ConnectionRefused: There is no Ray here, no cluster, or one of another version.
    """
    try:
        import ray
    except ImportError as error:
        raise ConnectionRefused("NoRay", f"{sys.executable} has no Ray ({error})", INSTALL) from None
    address = address or os.environ.get("RAY_ADDRESS", "")
    where = address or "this machine"
    host, _, port = where.rpartition(":")
    try:
        if host and port.isdecimal():  # Ray itself tries for minutes where nothing listens
            socket.create_connection((host, int(port)), CONNECT_S).close()
        cluster.connect(address)
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            text = " ".join(str(error).split())
            hint = "Use the versions of the cluster, or name a Python that has them: ray.ray_python."
            raise ConnectionRefused("RayVersionDiffers", f"Ray on {where}: {text}", hint) from None
        raise ConnectionRefused("RayUnavailable", f"Ray on {where} refused: {error}", "") from None
    except (ConnectionError, ValueError, OSError) as error:
        text = f"no Ray cluster answers on {where}: {str(error).splitlines()[0]}"
        hint = "Start one (`ray start --head`), or name it: ray.address, as HOST:PORT."
        raise ConnectionRefused("RayUnavailable", text, hint) from None
    assert ray.is_initialized()


def wake(names: list[str]) -> None:
    """Makes supervising actors read requests to stop at once."""
    for name in names:
        with suppress(ValueError):  # it is gone
            cluster.call(cluster.named_actor(name), "wake")


if __name__ == "__main__":
    main()
