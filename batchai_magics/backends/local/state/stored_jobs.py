"""Jobs as their rows tell of them, part by part: lists make thousands, of which little is asked for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from batchai_magics.backends.base import Page
from batchai_magics.backends.local.state.rows import in_parts, moment
from batchai_magics.backends.service.descriptions import output_segment
from batchai_magics.models.execution import ErrorDetail, ExecutionInfo, RankExit
from batchai_magics.models.ids import Kind, ResourceId
from batchai_magics.models.job import JobSpec
from batchai_magics.models.provisioning import Provisioning
from batchai_magics.models.resources import JobResource
from batchai_magics.models.states import ExecutionState

_COLUMNS = "id, seq, spec, created, guid, state, changed, started, ended, exit_code, errors, ranks"
_QUERY = f"SELECT {_COLUMNS} FROM resource CROSS JOIN job USING (key) WHERE"


class StoredJob:
    """What the rows of a job say: the fields of a JobResource, each made when it is asked for."""

    waiting = ""
    attempts = ()

    def __init__(self, row: sqlite3.Row) -> None:
        self._row = row

    @property
    def id(self) -> ResourceId:
        """Its id."""
        return ResourceId.parse(self._row["id"])

    @property
    def spec(self) -> JobSpec:
        """Its description."""
        return job_spec(self._row["spec"])

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
            errors=tuple(map(ErrorDetail.of_stored, json.loads(row["errors"]))),
        )

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


@lru_cache(maxsize=4096)
def job_spec(text: str) -> JobSpec:
    """The job description in a row; the same one for the same text, since descriptions never change."""
    return JobSpec.from_stored(text)


def _job(row: sqlite3.Row) -> JobResource:
    return JobResource.reading_later(StoredJob(row))


def _rank(item: dict[str, Any]) -> RankExit:
    ended = None if item["ended"] is None else moment(item["ended"])
    return RankExit(item["rank"], item["node"], item["exit_code"], ended, item.get("peak_bytes"))
