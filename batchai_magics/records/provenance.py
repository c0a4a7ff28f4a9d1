"""The provenance of a run: its submission, and the hardware and software of its machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from operator import attrgetter
from typing import Any, NamedTuple

from batchai_magics.models.runs.notifications import Delivery
from batchai_magics.records.record_files import DELIVERIES, MACHINES, PARAMETERS, PART, SUBMISSION
from batchai_magics.records.submission import GitState, Submission, Variable, made, upload_name
from batchai_magics.untrusted_files import parse_json

VERSION = 1


class MachineRecord(NamedTuple):
    """A machine of a run: `python` and `packages` describe the job's interpreter."""

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
    def from_text(cls, text: str | bytes) -> MachineRecord:
        """Reads the text of `to_text`; unknown fields of a newer version are ignored.

        Raises:
            ValueError: It is something else.
        """
        try:
            machine: MachineRecord = made(cls, parse_json(text))
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not the record of a machine: {error}") from None
        return machine


NAMES = (SUBMISSION, MACHINES, DELIVERIES, PARAMETERS)  # the record files that it is read from
_COMMIT = 10  # characters of a commit that are shown
_MAX_NAMES = 10  # of uploaded files


@dataclass(frozen=True, repr=False)
class Provenance:
    """The code, machines and inputs of a run; `submission` is None if the run has no record of it.

    Its `repr` is a summary; `submission.code.text`, `submission.git.diff` and `machines[0].packages` are
    complete.
    """

    run: str
    submission: Submission | None = None
    machines: tuple[MachineRecord, ...] = ()
    problems: tuple[str, ...] = field(default=())
    deliveries: tuple[Delivery, ...] = ()

    @classmethod
    def of_files(cls, run: str, files: Mapping[str, bytes]) -> Provenance:
        """The provenance of a run from its record files; unreadable ones are among the problems."""
        submission, machines, problems, deliveries = (
            None,
            list[MachineRecord](),
            list[str](),
            list[Delivery](),
        )
        for name, data in files.items():
            if name.endswith(PART):
                continue
            try:
                if name == SUBMISSION:
                    submission = Submission.from_text(data)
                elif name == PARAMETERS:
                    parse_json(data)  # they are among the labels
                elif name.startswith(DELIVERIES):
                    deliveries.append(Delivery.from_text(data))
                else:
                    machines.append(MachineRecord.from_text(data))
            except ValueError as error:
                problems.append(f"{name}: {error}")
        ordered = sorted(deliveries, key=attrgetter("time"))
        return cls(run, submission, tuple(machines), tuple(problems), tuple(ordered))

    def to_data(self) -> dict[str, Any]:
        """JSON-ready data with everything."""
        submission = self.submission
        data = submission._asdict() if submission else {}
        if submission:
            data["code"] = submission.code._asdict()
            data["variables"] = {name: variable._asdict() for name, variable in submission.variables.items()}
            data["git"] = submission.git._asdict() if submission.git else None
            del data["remedies"]  # for the message of a failure
        return {"run": self.run, **data, "machines": [machine._asdict() for machine in self.machines]}

    def facts(self) -> Iterator[tuple[str, str]]:
        """The summary as pairs of title and text, without those that are empty."""
        if self.submission:
            yield from ((title, text) for title, text in _submitted(self.submission) if text)
        for machine in self.machines:
            memory = f"{machine.memory_bytes / (1 << 30):.0f} GiB" if machine.memory_bytes else ""
            cores = f"{machine.cores} cores" if machine.cores else ""
            parts = (machine.processor, cores, memory, *machine.gpus, machine.system)
            yield machine.name, ", ".join(filter(None, parts))
            if machine.python:
                yield "", f"Python {machine.python}, {len(machine.packages)} packages"
            if machine.problem:
                yield "", machine.problem
        for number, delivery in enumerate(self.deliveries):
            yield "" if number else "notified", str(delivery)
        for problem in self.problems:
            yield "unreadable", problem

    def sections(self) -> Iterator[tuple[str, str]]:
        """The long texts: code, uncommitted changes, packages; each with its title."""
        if self.submission:
            yield self.submission.code.name or self.submission.code.kind, self.submission.code.text
            if self.submission.git:
                yield "uncommitted changes", self.submission.git.diff
        packages = dict(pair for machine in self.machines for pair in machine.packages.items())
        yield "packages", "\n".join(f"{name}=={version}" for name, version in packages.items())

    def __repr__(self) -> str:
        facts = list(self.facts())
        if not facts:
            return f"nothing is recorded of run {self.run}"
        width = max(len(title) for title, _ in facts)
        return "\n".join(f"{title:<{width}}  {text}" for title, text in facts)


def _submitted(record: Submission) -> Iterator[tuple[str, str]]:
    when = datetime.fromtimestamp(record.submitted, timezone.utc).astimezone()
    code = record.code
    yield "submitted", f"{when:%Y-%m-%d %H:%M:%S}, Python {record.python}, batchai_magics {record.package}"
    yield "repeats", record.resubmitted
    yield "code", f"{code.name or code.kind}, {len(code.text.splitlines())} lines" + ", cut" * code.is_cut
    yield "options", record.line
    yield "arguments", record.arguments
    yield (
        "variables",
        "; ".join(f"{name} = {variable_text(variable)}" for name, variable in record.variables.items()),
    )
    names = list(map(upload_name, record.uploads))
    more_count = len(names) - _MAX_NAMES
    yield "uploads", ", ".join([*names[:_MAX_NAMES], *([f"and {more_count} more"] if more_count > 0 else [])])
    yield "environment", " ".join(f"{name}={value}" for name, value in record.environment.items())
    yield "secrets", ", ".join(record.secrets)
    yield "image", record.image
    yield "git", git_text(record.git) if record.git else ""


def variable_text(variable: Variable) -> str:
    """A variable on one line: its value, or its type, shape and digest."""
    if variable.value:
        return variable.value
    shape = "×".join(map(str, variable.shape))
    parts = [variable.type, shape, variable.dtype, f"{variable.size_bytes} bytes", variable.digest[:19]]
    return " ".join(filter(None, parts))


def git_text(state: GitState) -> str:
    """The git state on one line."""
    commit = state.commit[:_COMMIT] or "no commit"
    branch = f"on {state.branch}" if state.branch else ""
    count = sum(line.startswith("diff --git ") for line in state.diff.splitlines())
    changed = f"{count} file{'s' * (count != 1)} changed" if state.diff else ""
    untracked = f"{len(state.untracked)} untracked" if state.untracked else ""
    changes = ", ".join(filter(None, (changed, untracked)))
    text = " ".join(filter(None, (commit, branch, state.remote and f"of {state.remote}")))
    return state.problem or (f"{text}; {changes}" if changes else text)
