"""Jobs as their rows tell of them, part by part: lists make thousands, of which little is asked for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

from batchai_magics.backends.base import Page
from batchai_magics.backends.local.state.attempts import Attempts, are_several
from batchai_magics.backends.local.state.rows import in_parts, moment
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.models.execution import Attempt, ExecutionInfo, RankExit
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.provisioning import Provisioning
from batchai_magics.models.resources import JobResource
from batchai_magics.models.resources.jobs import KeptJob
from batchai_magics.models.states import ExecutionState

if TYPE_CHECKING:
    from batchai_magics.models.error_details import ErrorDetail
    from batchai_magics.models.job import JobSpec

_COLUMNS = "id, seq, spec, created, guid, state, changed, started, ended, exit_code, errors, ranks, attempts"
_QUERY = f"SELECT {_COLUMNS} FROM resource CROSS JOIN job USING (key) WHERE"


class StoredJob:
    """What the rows of a job say: the fields of a JobResource, each made when it is asked for."""

    waiting = ""

    def __init__(self, row: sqlite3.Row) -> None:
        self._row = row

    @cached_property
    def id(self) -> ResourceId:
        """Its id."""
        return ResourceId.parse(self._row["id"])

    @property
    def spec(self) -> JobSpec:
        """Its description."""
        return job_spec(self._row["spec"])

    @property
    def description(self) -> dict[str, Any]:
        """The same as JSON."""
        fields: dict[str, Any] = json.loads(self._row["spec"])["properties"]
        return fields

    @property
    def kept(self) -> KeptJob:
        """All of it as it is kept: lists print it as it is."""
        id, _, description, created, guid, state, changed, started, ended, exit_code, errors, *_ = self._row
        above, _, name = id.rpartition("/")
        group, segment = _group_and_segment(above)
        run = f"{segment}{name}/{guid}"
        return KeptJob(
            *(id, name, group, description, run, created, state, changed),
            *(started, ended, exit_code, errors),
        )

    @property
    def provisioning(self) -> Provisioning:
        """When it was made."""
        created = moment(self._row["created"])
        return Provisioning(created, created)

    @property
    def state(self) -> ExecutionState:
        """Where it stands."""
        return ExecutionState(self._row["state"])

    @property
    def state_changed(self) -> datetime:
        """Since when it stands there."""
        return moment(self._row["changed"])

    @property
    def output_path_segment(self) -> str:
        """The path of its run below the prefix of each output."""
        return output_segment(self.id, self._row["guid"])

    @property
    def execution(self) -> ExecutionInfo | None:
        """How it ran; None before it has begun."""
        row = self._row
        if row["started"] is None:
            return None
        return ExecutionInfo(
            started=moment(row["started"]),
            ended=None if row["ended"] is None else moment(row["ended"]),
            exit_code=row["exit_code"],
            errors=_errors(row["errors"]),
        )

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Each time that it was begun, if it was more than once or is to be begun again."""
        told: Attempts = () if self._row["attempts"] == "[]" else tuple(json.loads(self._row["attempts"]))
        return tuple(map(_attempt, told, count(1))) if are_several(told) else ()

    @property
    def ranks(self) -> tuple[RankExit, ...]:
        """How each process ended, the first failure first."""
        return tuple(map(_rank, json.loads(self._row["ranks"])))


def inside(db: sqlite3.Connection, parent: ResourceId, page: Page) -> tuple[list[JobResource], Page | None]:
    """The jobs of an experiment, oldest first, and the page after these."""
    size = -1 if page.size is None else page.size + 1
    query = f"{_QUERY} parent = ? AND kind = ? AND seq > ? ORDER BY seq LIMIT ?"
    rows = db.execute(query, (parent.key, Kind.JOB.value, int(page.after or 0), size)).fetchall()
    shown = rows[: page.size]
    after = None if len(rows) == len(shown) else Page(page.size, str(shown[-1]["seq"]))
    return list(map(_job, shown)), after


def some(db: sqlite3.Connection, keys: Sequence[str]) -> list[JobResource]:
    """Those of these jobs that there are, in any order."""
    return [_job(row) for row in in_parts(db, f"{_QUERY} key IN", keys)]


@lru_cache(maxsize=256)
def _group_and_segment(above: str) -> tuple[str, str]:
    """The resource group of the jobs whose ids begin so, and what the paths of their output begin with."""
    id = ResourceId.parse(f"{above}/x")
    return id.group, output_segment(id, "").removesuffix("x/")


@lru_cache(maxsize=4096)
def job_spec(text: str) -> JobSpec:
    """The job description in a row; the same one for the same text, since descriptions never change."""
    from batchai_magics.models.job import JobSpec  # a list prints the text as it is

    return JobSpec.from_stored(text)


@lru_cache(maxsize=1024)
def _errors(text: str) -> tuple[ErrorDetail, ...]:
    """What a row says went wrong; many jobs end in the same way."""
    from batchai_magics.models.error_details import ErrorDetail

    return tuple(map(ErrorDetail.of_stored, json.loads(text)))


def _job(row: sqlite3.Row) -> JobResource:
    return JobResource.reading_later(StoredJob(row))


def _attempt(item: Mapping[str, Any], number: int) -> Attempt:
    ended = moment(item["ended"]) if "ended" in item else None
    return Attempt(number, tuple(item["nodes"]), moment(item["started"]), ended, item.get("reason", ""))


def _rank(item: dict[str, Any]) -> RankExit:
    ended = None if item["ended"] is None else moment(item["ended"])
    return RankExit(item["rank"], item["node"], item["exit_code"], ended, item.get("peak_bytes"))
