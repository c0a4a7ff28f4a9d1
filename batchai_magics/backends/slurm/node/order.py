"""What a job's first node is told to do, and how it puts its own names for what nobody knew before.

Which nodes a job gets is Slurm's to say, and which ports are free there. The plans are made before; in them
stand-ins are for the names of nodes and for ports.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node.ports import free_ports
from batchai_magics.launch.plan import Plan

_FIRST_PORT = 7_700_000_000  # no port has such a number, and no node such a name


class Plans(NamedTuple):
    """What an order's nodes run, with their names in it."""

    processes: Plan
    preparation: Plan | None
    setup: Plan | None


class Order(NamedTuple):
    """The plans of a job's processes, of its preparation and of its cluster's setup task, and how ranks meet.

    A plan is empty where there is nothing of the kind.
    """

    plan: str
    preparation: str
    node_count: int
    port_count: int
    mpi: str  # what srun's option of that name is given
    programs: str  # the folder of the programs
    setup: str = ""
    setups: str = ""  # the folder that tells on which nodes the setup task has been run
    setup_secrets: str = ""  # the file of its secrets, which may not be there
    is_setup_elevated: bool = False

    def to_json(self) -> str:
        """The order as it is written to a file."""
        return json.dumps(self._asdict())

    @classmethod
    def read(cls, file: Path) -> Order:
        """The order in a file."""
        return cls(**json.loads(file.read_text(encoding="utf-8")))

    def filled_in(self, guid: str, nodes: Sequence[str], addresses: Sequence[str]) -> Plans:
        """The plans for these nodes."""
        names = {node_stand_in(guid, index): name for index, name in enumerate(nodes)}
        names |= {address_stand_in(guid, index): address for index, address in enumerate(addresses)}
        ports = zip(port_stand_ins(self.port_count), free_ports(self.port_count), strict=True)
        names |= {str(stand_in): str(port) for stand_in, port in ports}
        others = (_plan(text, names) if text else None for text in (self.preparation, self.setup))
        return Plans(_plan(self.plan, names), *others)


def node_stand_in(guid: str, index: int) -> str:
    """What stands for the name of a job's node."""
    return f"node-{index}.of-{guid}"


def address_stand_in(guid: str, index: int) -> str:
    """What stands for where the other nodes reach a node."""
    return f"address-{index}.of-{guid}"


def port_stand_ins(count: int) -> tuple[int, ...]:
    """What stands for ports."""
    return tuple(range(_FIRST_PORT, _FIRST_PORT + count))


def _plan(text: str, names: dict[str, str]) -> Plan:
    for stand_in, name in names.items():
        text = text.replace(stand_in, name)
    plan = Plan.from_json(text)
    tmpdir = os.environ.get("TMPDIR", "/tmp")
    return plan._replace(nodes=tuple(node._replace(tmpdir=tmpdir) for node in plan.nodes))
