"""What the program that watches a run is to do: export metrics, notify if it makes no progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from batchai_magics.models.runs.scalar_export import ExportTarget, export_targets
from batchai_magics.untrusted_files import parse_json


class WatchRequest(NamedTuple):
    """The file `watch.json` of a run.

    `name` and `experiment` are the job's, `patterns` the expressions of its metrics, `exports` the targets of
    live exports, `link` what notifications link to. After `stalled_s` without output, users are notified; 0:
    never. `node_price` is the price of a node for an hour; 0: unknown. `headline` is the metric that the user
    has chosen to represent runs, if any. Notifications show places in the copy `source_folder` and in
    the cell's `script` as the user's own, and with `has_lines` the last lines of a process that failed.
    """

    name: str
    experiment: str
    patterns: Mapping[str, str] = MappingProxyType({})
    exports: tuple[str, ...] = ()
    parameters: Mapping[str, str] = MappingProxyType({})
    tags: tuple[str, ...] = ()
    link: str = ""
    stalled_s: float = 0.0
    node_price: float = 0.0
    headline: str = ""
    source_folder: str = ""
    script: str = ""
    has_lines: bool = False

    @property
    def targets(self) -> tuple[ExportTarget, ...]:
        """The parsed export targets."""
        return export_targets(self.exports)

    def to_json(self) -> str:
        """The text of the file."""
        fields = self._asdict() | {"patterns": dict(self.patterns), "parameters": dict(self.parameters)}
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str) -> WatchRequest:
        """Reads the file; fields of later versions are ignored.

        Raises:
            ValueError: It is malformed, or a target is invalid.
        """
        try:
            fields = parse_json(text)
            request = cls(**{name: fields[name] for name in cls._fields if name in fields})
            request = request._replace(
                exports=tuple(map(str, request.exports)), tags=tuple(map(str, request.tags))
            )
            _ = request.targets  # validates them
            return request
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no watch request: {error}") from None
