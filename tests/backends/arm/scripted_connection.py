"""A connection with scripted responses that records its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from batchai_magics.backends.arm.settings import ArmSettings
from batchai_magics.backends.azure.arm_protocol import ArmRequest


@dataclass
class ScriptedResponse:
    """A response, as Azure's library returns it."""

    data: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Mapping[str, Any]:
        return self.data


class ScriptedConnection:
    """Gives the responses in order; raises those that are errors."""

    def __init__(self, *answers: ScriptedResponse | Mapping[str, Any] | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[ArmRequest] = []
        self.endpoint = SimpleNamespace(settings=ArmSettings(endpoint="http://127.0.0.1:1", token="t"))

    def send(self, request: ArmRequest) -> ScriptedResponse:
        self.requests.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ScriptedResponse) else ScriptedResponse(answer)

    def request_json(self, request: ArmRequest) -> Mapping[str, Any]:
        return self.send(request).json()
