"""Why a job or a node failed, as the service says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import Self

from batchai_magics.models.answer import Answer
from batchai_magics.models.wire import WireModel


class NameValue(WireModel):
    """A detail of an error."""

    name: str
    value: str


WARNINGS = frozenset({"MpiNotUsed", "StopConditionNotChecked"})  # codes that make no failure of a success


class ErrorDetail(WireModel):
    """Why a job or a node failed, or a warning: a fixed code, a sentence, details."""

    code: str
    message: str
    details: tuple[NameValue, ...] | None = None

    @property
    def is_warning(self) -> bool:
        """Whether the job is none the worse for it."""
        return self.code in WARNINGS

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Self:
        """Reads the service's JSON; what else it says is left out."""
        return Answer.of(data, "the error").model(cls)
