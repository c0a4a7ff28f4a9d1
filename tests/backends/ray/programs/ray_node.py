"""Runs a node of a Ray cluster on loopback until its input ends: `ADDRESS NAME`."""

import os
import sys
from pathlib import Path

from ray._private.node import Node
from ray._private.parameter import RayParams

ADDRESS, NAME = sys.argv[1:]
OPTIONS = {
    "num_cpus": 2,
    "num_gpus": 2,
    "object_store_memory": 80_000_000,
    "include_log_monitor": False,
    "node_ip_address": "127.0.0.1",
    "node_manager_port": 0,
    "min_worker_port": 0,
    "max_worker_port": 0,
}


def main():
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints
    params = RayParams(gcs_address=ADDRESS, redis_address=ADDRESS, node_name=NAME, **OPTIONS)
    sockets = Path(os.environ["RAY_TMPDIR"], "ray/session_latest").resolve() / "sockets"
    number = f"{NAME}.{os.getpid()}"  # nodes that start at the same time would take the same names
    params.raylet_socket_name = str(sockets / f"raylet.{number}")
    params.plasma_store_socket_name = str(sockets / f"store.{number}")
    params.dashboard_agent_listen_port = None
    node = Node(params, head=False, shutdown_at_exit=True, spawn_reaper=True)
    print("up", file=said, flush=True)
    sys.stdin.read()
    node.kill_raylet(check_alive=False)
    node.kill_all_processes(check_alive=False, allow_graceful=False)


main()
