"""What a plan is made from beside the description: the job's nodes, and the site that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from batchai_magics.launch.plan import LogFile, Output

NO_RECORDS = Output(LogFile(""), LogFile(""))


@dataclass(frozen=True)
class NodeShare:
    """A node as a job sees it: its name and address, its GPUs and cores, and its own paths.

    Name, address and paths are references where the node is not known yet, and so are the ports of a site.
    """

    id: str
    gpu_count: int
    mount_root: str
    job_mount_root: str
    temp: str
    address: str = ""  # where the other nodes reach its processes
    tmpdir: str = ""
    devices: tuple[str, ...] = ()  # GPUs of the machine that belong to the node: numbers or UUIDs
    core_count: int = 1  # cores of the machine that belong to it


@dataclass(frozen=True)
class JobSite:
    """What all nodes of a job share: folders, interpreters, and free TCP ports (one a process).

    `records` is where its ranks record who wrote what, and when, as `Output` says of both streams. `hidden`
    is the folder where they record which bytes of each log are a secret's.
    """

    stdouterr: str
    shared_temp: str
    host_file: str
    output_segment: str
    python: str  # runs the job's scripts
    python_wrapper: str = ""  # runs a script so that an error in one rank ends the job
    ports: tuple[int | str, ...] = ()
    guid: str = ""
    rank_python: str = ""  # runs the ranks' program
    exits: str = ""
    preparation_exits: str = ""
    records: Output = NO_RECORDS
    hidden: str = ""
    telemetry: str = ""  # the folder for samples of what the ranks use
    threads: Mapping[str, str] = field(default_factory=dict)  # variables for them that are set already
    device_order: str = "PCI_BUS_ID"  # in which CUDA counts GPUs: as the driver's tools do
    disk_grace_s: float = 60.0
    module_path: str = ""  # where Python looks for modules behind the folders that the job names
