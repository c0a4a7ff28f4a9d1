"""The record of a sweep's trial: the sweep that it belongs to, and how many trials of it run at once."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from batchai_magics.untrusted_files import parse_json

PRUNED = "pruned"  # the tag of a trial that was ended for doing worse than the others
_TRIAL = re.compile(r"-t([1-9]\d*)(?:-([1-9]\d*))?")
_TRIAL_NAME = re.compile(rf"(.*){_TRIAL.pattern}")


class TrialRecord(NamedTuple):
    """The record of a trial."""

    sweep: str
    number: int  # the number of the trial, from 1
    parallel: int = 0  # how many trials of the sweep may run at once; 0: any number
    steps_on: str = "failure"  # when the end of the trial takes the sweep's next step: `end`, `failure`
    share: str = ""  # the share with the sweep's definition

    def to_text(self) -> str:
        """The text of the file `trial.json`."""
        return json.dumps(self._asdict())

    @classmethod
    def from_text(cls, text: str | bytes) -> TrialRecord:
        """Reads the text of `to_text`; raises ValueError if it is not one."""
        data = parse_json(text)
        if not isinstance(data, dict) or not {"sweep", "number"} <= data.keys():
            raise ValueError("it is not the record of a trial")
        known = {name: data[name] for name in cls._fields if name in data}
        for name, value in known.items():
            if not isinstance(value, int if name in ("number", "parallel") else str):
                raise ValueError(f"the record of a trial has an invalid {name}")
        return cls(**known)


def trial_name(sweep: str, number: int, run: int = 1) -> str:
    """The name of a trial's job: `lr-t7`, and `lr-t7-2` for its second run."""
    return f"{sweep}-t{number}" + (f"-{run}" if run > 1 else "")


def sweep_of(trial: str) -> str:
    """The name of the sweep whose trial has a job of this name; empty for any other job."""
    match = _TRIAL_NAME.fullmatch(trial)
    return match[1] if match else ""


def trial_of(name: str, sweep: str) -> tuple[int, int] | None:
    """The number of a trial and of its run, from the name of its job; None for any other job."""
    if not name.lower().startswith(sweep.lower()):
        return None
    match = _TRIAL.fullmatch(name[len(sweep) :])
    return (int(match[1]), int(match[2] or 1)) if match else None
