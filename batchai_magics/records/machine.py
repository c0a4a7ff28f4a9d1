"""The hardware and software of a machine that a run used, as recorded beside its ranks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from batchai_magics.records.submission import made

VERSION = 1


class Machine(NamedTuple):
    """A machine of a run: `python` and `packages` are those of the job's interpreter."""

    name: str
    system: str = ""
    processor: str = ""
    cores: int = 0
    memory_bytes: int = 0
    gpus: tuple[str, ...] = ()
    python: str = ""
    executable: str = ""
    packages: Mapping[str, str] = {}
    problem: str = ""  # what is not known, and why

    def to_text(self) -> str:
        """The text of its file in `machines/`."""
        return json.dumps({"version": VERSION, **self._asdict()}, ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str | bytes) -> Machine:
        """Reads the text of `to_text`; unknown fields of a newer version are ignored.

        Raises:
            ValueError: It is something else.
        """
        try:
            machine: Machine = made(cls, json.loads(text))
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not the record of a machine: {error}") from None
        return machine
