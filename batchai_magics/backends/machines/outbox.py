"""Questions that nobody waits for, each thread's own: they are told together with the next one."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from batchai_magics.backends.machines.link import Frame, error_of

AGAIN = ("link", "symlink", "move", "unlink", "mkdir", "put_new")  # told that it may have been done already
_MISLEADING = (errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # of another path than is asked about


class Question(NamedTuple):
    """What the host is asked, and the bytes that go with it."""

    head: Mapping[str, Any]
    data: bytes

    def told(self, *, is_again: bool) -> dict[str, Any]:
        """Its head; where the answer was lost before, it may have been done already."""
        return {**self.head, "again": True} if is_again and self.head["ask"] in AGAIN else {**self.head}


class Outbox(threading.local):
    """The questions that this thread holds back. Outside of `open` it holds back none."""

    def __init__(self) -> None:
        self._held: list[Question] = []
        self._depth = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Within it, questions may be held back."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def keeps(self, question: Question) -> bool:
        """Holds a question back, if that may be done now."""
        if self._depth:
            self._held.append(question)
        return bool(self._depth)

    def taken(self) -> list[Question]:
        """What was held back, the first one first; it is no longer."""
        held, self._held = self._held, []
        return held


def as_one(questions: Sequence[Question], *, is_again: bool) -> Question:
    """One question for all of these."""
    heads = [question.told(is_again=is_again) for question in questions]
    if len(heads) == 1:
        return Question(heads[0], questions[0].data)
    each = [[head, len(question.data)] for head, question in zip(heads, questions, strict=True)]
    return Question({"ask": "several", "each": each}, b"".join(question.data for question in questions))


def last_answer(questions: Sequence[Question], answer: Frame) -> Frame:
    """The answer to the last of these; OSError, with its path, for the first that failed."""
    if len(questions) == 1:
        return answer
    told = answer.head["value"]
    for question, each in zip(questions, told, strict=False):
        if "failed" in each:
            raise _failure(question, each, is_last=question is questions[-1])
    size = told[-1]["size"]
    return Frame(told[-1], answer.data[len(answer.data) - size :])


def _failure(question: Question, told: Mapping[str, Any], *, is_last: bool) -> OSError:
    """The error of a question. What an earlier one says of its path must not pass for the last one's."""
    error = error_of(told["failed"], told["words"])
    if not is_last and error.errno in _MISLEADING:
        error = OSError(errno.EIO, told["words"])
    error.filename = question.head.get("path")
    return error
