"""Runs a Ray cluster on loopback alone, with Ray's own Python: `FOLDER PORT COUNT`.

All nodes have one address, 127.0.0.1, as Ray listens on every interface for any other one. Each line of
standard input is an order (`kill NAME`), each line of standard output says that one is done. It ends with its
input.
"""

import os
import sys
from pathlib import Path

FOLDER, PORT, COUNT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.environ.update(
    RAY_TMPDIR=FOLDER,
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # else it takes the address of another interface
    RAY_USAGE_STATS_ENABLED="0",
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
    "node_ip_address": "127.0.0.1",
}


def main():
    Path(FOLDER, "ray").mkdir(exist_ok=True)
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints
    cluster = Cluster(
        initialize_head=True, head_node_args={**OPTIONS, "node_name": "node1", "gcs_server_port": PORT}
    )
    nodes = {
        f"node{number}": cluster.add_node(wait=False, node_name=f"node{number}", **OPTIONS)
        for number in range(2, COUNT + 1)
    }
    cluster.wait_for_nodes()
    print("up", file=said, flush=True)
    for line in sys.stdin:
        order, name = line.split()
        if order == "kill":  # what the machine would do: all its processes at once
            node = nodes.pop(name)
            node.kill_raylet(check_alive=False)
            cluster.worker_nodes.remove(node)
            node.kill_all_processes(check_alive=False, allow_graceful=False)
        else:
            nodes[name] = cluster.add_node(wait=True, node_name=name, **OPTIONS)
        print(line.strip(), file=said, flush=True)
    cluster.shutdown()


main()
