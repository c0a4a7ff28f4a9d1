"""The setup of a cluster's nodes as it is stored with the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from batchai_magics.backends.node import elevation
from batchai_magics.backends.service import private_files
from batchai_magics.launch.plan import Plan
from batchai_magics.launch.references import Bindings


class SetupPlan(NamedTuple):
    """What each node of a cluster mounts and runs before it takes jobs; nothing without a plan."""

    plan: Plan | None
    is_elevated: bool

    def of_node(self, id: str) -> Plan:
        """The plan of one node."""
        assert self.plan, "most clusters have nothing to set up"
        plan = self.plan.resolved(Bindings([id]))
        return elevation.run_elevated(plan) if self.is_elevated else plan

    def write(self, file: Path) -> None:
        """Writes it to a file."""
        body = {"plan": self.plan.to_json() if self.plan else "", "is_elevated": self.is_elevated}
        private_files.write(file, json.dumps(body))

    @classmethod
    def read(cls, file: Path) -> SetupPlan:
        """Reads it from a file."""
        body = json.loads(file.read_text(encoding="utf-8"))
        return cls(Plan.from_json(body["plan"]) if body["plan"] else None, body["is_elevated"])
