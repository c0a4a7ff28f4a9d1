"""A far side in a list: what it answers, one question after the other, and what it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from batchai_magics.backends.arm.paths import Question
from batchai_magics.backends.arm.settings import ArmSettings


@dataclass
class Answered:
    """The answer to a question, as Azure's library gives it."""

    data: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Mapping[str, Any]:
        return self.data


class Answering:
    """A connection to it; an answer that is an error is raised."""

    def __init__(self, *answers: Answered | Mapping[str, Any] | Exception) -> None:
        self._answers = list(answers)
        self.questions: list[Question] = []
        self.endpoint = SimpleNamespace(settings=ArmSettings(endpoint="http://127.0.0.1:1", token="t"))

    def send(self, question: Question) -> Answered:
        self.questions.append(question)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Answered) else Answered(answer)

    def ask(self, question: Question) -> Mapping[str, Any]:
        return self.send(question).json()
