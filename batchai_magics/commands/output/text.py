"""Text that is shown as it stands: in a notebook a string would be shown with quotes and escapes."""

from __future__ import annotations


class Text(str):
    """A string whose repr is itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
