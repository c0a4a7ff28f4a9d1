"""The program that measures a node before a job's first rank, on request of the program that started it.

It connects to that program (`Preflight`), reports the facts of its node, then measures on request: its own
speed, or the exchange of data with another node. It ends when the connection does. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import platform
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from batchai_magics.backends.node.ranks.gpus import Gpus
from batchai_magics.backends.node.ranks.machine_recording import memory_bytes, packages

ADDRESS, TOKEN, INDEX = "BATCHAI_PREFLIGHT", "BATCHAI_PREFLIGHT_TOKEN", "BATCHAI_PREFLIGHT_NODE"
TOKEN_BYTES = 32  # as text
EXCHANGE_BYTES = 4 << 20
PEER_TIMEOUT_S = 3.0  # for another node to answer
ANSWER_TIMEOUT_S = 60.0  # for the next request; a working `Preflight` never pauses that long
PROCESSOR_S, MEMORY_S = 0.15, 0.05  # durations of the measurements
_BLOCK = bytes(64 << 10)
_MEMORY_BYTES, _DISK_BYTES = 16 << 20, 4 << 20
_PINGS, _EXCHANGES = 10, 8

Reply = dict[str, Any]


def main() -> None:
    """Serves the requests until the connection ends."""
    host, _, port = os.environ[ADDRESS].rpartition(":")
    token = os.environ[TOKEN]
    with socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S) as connection:
        address = connection.getsockname()[0]
        with socket.create_server((address, 0)) as listener, connection.makefile("rwb") as stream:
            hello = {"token": token, "node": int(os.environ[INDEX]), "port": listener.getsockname()[1]}
            _send(stream, {**hello, "address": address})
            for line in stream:
                _send(stream, _reply(json.loads(line), listener, token))


def _send(stream: Any, reply: Reply) -> None:
    stream.write(json.dumps(reply).encode() + b"\n")
    stream.flush()


def _reply(request: Reply, listener: socket.socket, token: str) -> Reply:
    try:
        match request["do"]:
            case "facts":
                return facts()
            case "clock":
                return {"time": time.time()}
            case "speed":
                return {**processor_and_memory(), **(disk() if request["disk"] else {})}
            case "serve":
                with _accepted_peer(listener, token) as peer:
                    return exchange(peer)
            case _:
                address = (request["address"], request["port"])
                with socket.create_connection(address, timeout=PEER_TIMEOUT_S) as peer:
                    peer.sendall(token.encode())
                    return exchange(peer)
    except OSError as error:
        return {"problem": str(error)}


def facts() -> Reply:
    """The facts of this node: its name, free memory and disk, packages and GPUs."""
    disk, devices = os.statvfs("."), Gpus()
    health, problem = devices.health()
    devices.close()
    return {
        "machine": platform.node(),
        "disk_free_bytes": disk.f_bavail * disk.f_frsize,
        "memory_bytes": memory_bytes("MemTotal"),
        "memory_free_bytes": memory_bytes("MemAvailable"),
        "python": platform.python_version(),
        "packages": dict(sorted(packages())),
        "gpus": [gpu._asdict() for gpu in health],
        "gpu_problem": problem,
    }


def processor_and_memory() -> Reply:
    """The rates of hashing and copying, in bytes per second of real time."""
    source, target = bytearray(_MEMORY_BYTES), bytearray(_MEMORY_BYTES)

    def copy() -> None:
        target[:] = source

    copy()  # allocates the pages
    return {
        "processor_rate": _rate(lambda: hashlib.sha256(_BLOCK), len(_BLOCK), PROCESSOR_S),
        "memory_rate": _rate(copy, _MEMORY_BYTES, MEMORY_S),
    }


def _rate(step: Any, size_bytes: int, duration_s: float) -> float:
    started, count = time.monotonic(), 0
    while (spent_s := time.monotonic() - started) < duration_s or not count:
        step()
        count += 1
    return count * size_bytes / spent_s


def disk() -> Reply:
    """The rate of writing to the disk of the working directory, in bytes per second."""
    data = secrets.token_bytes(_DISK_BYTES)
    with tempfile.TemporaryFile(dir=".") as file:
        started = time.monotonic()
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
        return {"disk_rate": _DISK_BYTES / (time.monotonic() - started)}


@contextlib.contextmanager
def _accepted_peer(listener: socket.socket, token: str) -> Iterator[socket.socket]:
    """The connection of another node of the job; connections without the token are closed."""
    listener.settimeout(PEER_TIMEOUT_S)
    while True:
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(PEER_TIMEOUT_S)
            if hmac.compare_digest(receive(peer, TOKEN_BYTES), token.encode()):
                yield peer
                return


def exchange(peer: socket.socket) -> Reply:
    """Latency, bandwidth and the time of an allreduce (a sum) between two nodes; both call this."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    started = time.monotonic()
    for _ in range(_PINGS):
        _both_ways(peer, b".")
    latency_s = (time.monotonic() - started) / _PINGS
    rates, allreduce_s, addend = [], [], secrets.token_bytes(EXCHANGE_BYTES)
    for _ in range(_EXCHANGES):
        started = time.monotonic()
        peer_addend = _both_ways(peer, addend)
        rates.append(EXCHANGE_BYTES / (time.monotonic() - started))
        total = int.from_bytes(addend, "little") + int.from_bytes(peer_addend, "little")
        allreduce_s.append(time.monotonic() - started)
    digest = hashlib.sha256(total.to_bytes(EXCHANGE_BYTES + 1, "little")).digest()
    if _both_ways(peer, digest) != digest:
        return {"problem": "the two nodes got different sums of the same numbers"}
    return {"rate": max(rates), "latency_s": latency_s, "allreduce_s": min(allreduce_s)}


def _both_ways(peer: socket.socket, data: bytes) -> bytes:
    """Sends data while it receives as many bytes."""
    if len(data) < len(_BLOCK):  # it fits into the buffers of the connection
        peer.sendall(data)
        return receive(peer, len(data))
    sender = threading.Thread(target=_send_all, args=(peer, data))
    sender.start()
    try:
        return receive(peer, len(data))
    finally:
        sender.join()


def _send_all(peer: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the other direction reports it
        peer.sendall(data)


def receive(peer: socket.socket, size_bytes: int) -> bytes:
    """Exactly `size_bytes` bytes; raises ConnectionError if the connection ends before."""
    data, count = bytearray(size_bytes), 0
    view = memoryview(data)
    while count < size_bytes:
        added = peer.recv_into(view[count:])
        if not added:
            raise ConnectionError("the other node closed the connection")
        count += added
    return bytes(data)
