"""Runs a Ray cluster on loopback alone, with Ray's own Python: `FOLDER PORT COUNT [HIDDEN]`.

All nodes have one address, 127.0.0.1, as Ray listens on every interface for any other one. Each line of
standard input is an order (`kill NAME`, `add NAME`), each line of standard output says that one is done. It
ends with its input. All nodes but the first one do not see the folder `HIDDEN`.
"""

import os
import subprocess
import sys
from pathlib import Path

FOLDER, PORT, COUNT, HIDDEN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "".join(sys.argv[4:])
os.environ.update(
    RAY_TMPDIR=FOLDER,
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # else it takes the address of another interface
    RAY_USAGE_STATS_ENABLED="0",
    RAY_raylet_start_wait_time_s="600",  # on a busy machine
    RAY_worker_niceness="0",  # else the tests of a busy machine starve them
    RAY_memory_monitor_refresh_ms="0",
    RAY_enable_worker_prestart="0",
    RAY_prestart_worker_first_driver="0",
    RAY_health_check_initial_delay_ms="1000",
    RAY_health_check_period_ms="1000",
    RAY_health_check_failure_threshold="5",
)

from ray.cluster_utils import Cluster  # noqa: E402 it reads these variables

OPTIONS = {
    "num_cpus": 2,
    "num_gpus": 2,
    "object_store_memory": 80_000_000,
    "include_dashboard": False,
    "include_log_monitor": False,
    "no_monitor": True,  # of an autoscaler
    "node_ip_address": "127.0.0.1",
}
NAMESPACE = ("unshare", "-m", "--propagation", "slave", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')


class WorkerNode:
    """A node in a process of its own, with an empty folder in place of `HIDDEN` if that is given."""

    def __init__(self, name):
        words = [sys.executable, Path(__file__).with_name("ray_node.py"), f"127.0.0.1:{PORT}", name]
        words = [*NAMESPACE, HIDDEN, *words] if HIDDEN else words
        self._program = subprocess.Popen(
            [*map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait(self):
        assert self._program.stdout.readline() == "up\n"
        return self

    def kill(self):
        self._program.stdin.close()
        self._program.wait()


def main():
    Path(FOLDER, "ray").mkdir(exist_ok=True)
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints
    cluster = Cluster(
        initialize_head=True, head_node_args={**OPTIONS, "node_name": "node1", "gcs_server_port": PORT}
    )
    nodes = {f"node{number}": WorkerNode(f"node{number}") for number in range(2, COUNT + 1)}
    for node in nodes.values():
        node.wait()
    print("up", file=said, flush=True)
    for line in sys.stdin:
        order, name = line.split()
        if order == "kill":  # what the machine would do: all its processes at once
            nodes.pop(name).kill()
        else:
            nodes[name] = WorkerNode(name).wait()
        print(line.strip(), file=said, flush=True)
    for node in nodes.values():
        node.kill()
    cluster.shutdown()


main()
