"""The inputs of planning besides the description: the nodes of a job, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from batchai_magics.launch.plan import LogFile, Output

NO_RECORDS = Output(LogFile(""), LogFile(""))


@dataclass(frozen=True)
class NodeShare:
    """A node as a job sees it: name, address, GPUs, cores and paths.

    Name, address, paths and devices are references as long as the node is unknown, as are ports of a site.
    """

    id: str
    gpu_count: int
    mount_root: str
    job_mount_root: str
    temp: str
    address: str = ""  # where other nodes reach its processes
    tmpdir: str = ""
    devices: tuple[str, ...] = ()  # the node's GPUs on its machine: numbers or UUIDs
    core_count: int | None = 1  # the node's cores on its machine; None as long as the node is unknown


@dataclass(frozen=True)
class JobSite:
    """What the nodes of a job share: folders, interpreters, and free TCP ports (one per process).

    `records` says where ranks record spans and times of both streams, `hidden` is the folder for the redacted
    spans of each log.
    """

    stdouterr: str
    shared_temp: str
    host_file: str
    output_segment: str
    python: str  # runs the job's scripts
    python_wrapper: str = ""  # runs a script so that an error in one rank ends the job
    ports: tuple[int | str, ...] = ()
    guid: str = ""
    rank_python: str = ""  # runs the rank program
    exits: str = ""
    preparation_exits: str = ""
    records: Output = NO_RECORDS
    hidden: str = ""
    telemetry: str = ""  # folder for resource usage samples
    machines: str = ""  # folder for records of the machines
    threads: Mapping[str, str] = field(default_factory=dict)  # thread count variables that are already set
    device_order: str = "PCI_BUS_ID"  # how CUDA numbers GPUs: like the driver's tools
    disk_grace_s: float = 60.0
    module_path: str = ""  # appended to the job's own PYTHONPATH
    checkpoints: str = ""  # the folder that a run keeps between its attempts
    artifacts: str = ""  # the folder of what it saves under a name
