"""The parameters that a run logs with `log(params=…)`: a file beside its records, which its rank 0 writes."""

from __future__ import annotations

from pathlib import Path

from batchai_magics.models.runs.parameters import Parameter, bounded
from batchai_magics.models.secret_masking import without_secrets
from batchai_magics.untrusted_files import read_json


class LoggedParameters:
    """Follows the parameters of a run that logs some now and then."""

    def __init__(self, file: Path) -> None:
        self._file, self._modified = file, 0

    def changed(self) -> dict[str, Parameter]:
        """All of them if there are others than last time; else none."""
        try:
            modified = self._file.stat().st_mtime_ns
        except OSError:  # it has logged none
            return {}
        if modified == self._modified:
            return {}
        self._modified = modified
        return logged_in(self._file)


def logged_in(file: Path) -> dict[str, Parameter]:
    """The parameters in a file, without secrets; empty if it is missing or unreadable."""
    try:
        data = read_json(file)
    except (OSError, ValueError):
        return {}
    return without_secrets(bounded(data)) if isinstance(data, dict) else {}
