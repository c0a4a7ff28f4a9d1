"""A run whose log files grow in memory, and the requests that were sent for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone

from batchai_magics.backends.azureml.connection import BlobRange
from batchai_magics.backends.azureml.run_details import RunDetails
from batchai_magics.errors import StorageError
from batchai_magics.models.resource_ids import Kind, ResourceId

JOB = ResourceId("s", "g", "w", Kind.JOB, "j", "e")


@dataclass
class LogSource:
    """Run history and blob storage of one run. The clock only moves when a test moves it."""

    files: dict[str, bytearray] = field(default_factory=dict)
    status: str = "Running"
    now: float = 1000.0
    is_expired: bool = False
    requests: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    signature: int = 0

    def write(self, name: str, data: bytes) -> None:
        self.files.setdefault(name, bytearray()).extend(data)

    def clock(self) -> float:
        return self.now

    def run_of(self, id: ResourceId) -> str:
        return id.name

    def details(self, run: str) -> RunDetails:
        self.requests["details"] += 1
        if self.is_expired:
            self.signature, self.is_expired = self.signature + 1, False
        return RunDetails.from_wire(
            {"status": self.status, "logFiles": {name: f"{name}?{self.signature}" for name in self.files}}
        )

    def read_blob(self, url: str, offset: int, limit: int) -> BlobRange | None:
        name, _, signature = url.partition("?")
        self.requests[name] += 1
        if self.is_expired or int(signature) != self.signature:
            raise StorageError("the address has expired", code="SasExpired")
        if name not in self.files:
            return None
        data = bytes(self.files[name])
        found = data[offset : offset + limit]
        self.sent_bytes += len(found)
        return BlobRange(found, len(data), "", datetime.fromtimestamp(self.now, timezone.utc))
