"""Error details of jobs and nodes, as in the service's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import Self

from batchai_magics.models.response_object import ResponseObject
from batchai_magics.models.states import WARNINGS
from batchai_magics.models.wire_model import WireModel


class NameValue(WireModel):
    """A detail of an error."""

    name: str
    value: str


class ErrorDetail(WireModel):
    """An error or warning of a job or node: a fixed code (`JobFailed`), a message, and details by name."""

    code: str
    message: str
    details: tuple[NameValue, ...] | None = None

    @property
    def is_warning(self) -> bool:
        """Whether it is a warning, which does not make the job fail."""
        return self.code in WARNINGS

    @property
    def text(self) -> str:
        """One line: the code, what it is about, and the message."""
        about = ", ".join(detail.value for detail in self.details or ())
        return f"{self.code}{f' ({about})' * bool(about)}: {self.message}"

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Self:
        """Reads the service's JSON, ignoring unknown fields.

        Raises:
            ServiceError: A field is missing or has another type.
        """
        return ResponseObject.of(data, "the error").model(cls)
