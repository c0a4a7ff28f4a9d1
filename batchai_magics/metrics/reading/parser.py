"""The incremental parser: log bytes in, records out, the same for any chunking."""

from __future__ import annotations

from collections.abc import Mapping

from batchai_magics.metrics.reading.log_file import LogFile
from batchai_magics.metrics.reading.patterns import Patterns
from batchai_magics.metrics.reading.times import HasTimes
from batchai_magics.metrics.record import Record


class Parser:
    r"""Reads training logs incrementally; memory is bounded by 64 KiB per stream.

    1. Any chunking of the bytes gives the same records, in the order in which their lines end.
    2. Bytes fed with different `rank` are different files, each with its own unfinished line and offsets.
    3. A record counts when its line has ended, and only in its full shape; `finish` reads lines left open.
    4. No input raises. What is not understood is skipped.

    `patterns` maps names to regular expressions on a line's bytes: the group `value`, or the first one, is
    the number of a PatternRecord. UsageError if one of them cannot work.
    """

    def __init__(self, patterns: Mapping[str, str] = {}) -> None:
        self._patterns = Patterns(patterns)
        self._files: dict[int | None, LogFile] = {}

    def feed(
        self,
        data: bytes,
        rank: int | None = None,
        *,
        offset: int | None = None,
        clock: HasTimes | None = None,
    ) -> list[Record]:
        """The records that these bytes complete; `rank` is the process that wrote them, if that is known.

        `offset` is the place of the bytes in their file, where those of several processes stand in one; by
        default they follow on those before. `clock` tells when they were written: the time of lines that do
        not tell a better one.
        """
        return list(self.file_of(rank).feed(data, offset=offset, clock=clock))

    def file_of(self, rank: int | None) -> LogFile:
        """Where the file of a process has come to, for another reader to go on with."""
        file = self._files.get(rank)
        if file is None:
            file = self._files[rank] = LogFile(rank, self._patterns)
        return file

    def finish(self) -> list[Record]:
        """The records of full shape on lines that nothing ended; the parser is then ready for new streams."""
        files = list(self._files.values())
        self._files.clear()
        return [record for file in files for record in file.finish()]
