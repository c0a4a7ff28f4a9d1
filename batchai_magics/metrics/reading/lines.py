"""Lines of a file that are read together, with what their tags tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from batchai_magics.metrics.reading.timestamps import Timestamp


@dataclass(slots=True)
class Lines:
    """Successive lines of a file without their ends; `ends` are offsets in the file.

    `rank` is that of all lines, None if they tell it; tags tell the rank and the time of each. `first` is the
    number of the first line in its file. `is_continued`: the first is the rest of a line that was too long.
    `has_end`: the last one has its newline.
    """

    texts: list[bytes]
    ends: Sequence[int]
    rank: int | None
    first: int
    ranks: list[int | None] | None = None
    stamps: list[Timestamp | None] | None = None
    is_continued: bool = False
    has_end: bool = True
    _joined: bytes | None = None

    @property
    def joined(self) -> bytes:
        """The lines with newlines between them."""
        if self._joined is None:
            self._joined = b"\n".join(self.texts)
        return self._joined

    def rank_at(self, row: int) -> int | None:
        """The rank of a line, as far as its file or its tag tells it."""
        return self.rank if self.ranks is None else self.ranks[row]

    def stamp_at(self, row: int) -> Timestamp | None:
        """The time in a line's tag."""
        return None if self.stamps is None else self.stamps[row]

    def is_whole(self, row: int) -> bool:
        """Whether a line has its beginning and its end."""
        return not (self.is_continued and row == 0) and (self.has_end or row < len(self.texts) - 1)

    def slice(self, begin: int, end: int) -> Lines:
        """Some of the lines."""
        return replace(
            self,
            texts=self.texts[begin:end],
            ends=self.ends[begin:end],
            first=self.first + begin,
            ranks=self.ranks and self.ranks[begin:end],
            stamps=self.stamps and self.stamps[begin:end],
            _joined=None,
        )
