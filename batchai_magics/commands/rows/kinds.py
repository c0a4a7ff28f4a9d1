"""The kinds of option that storage commands share."""

from __future__ import annotations

from batchai_magics.commands.tree import Live, Option


def share(*flags: str) -> Option:
    """An option that names a file share."""
    return Option(flags, "Name of the file share.", is_required=True, completes=Live.SHARE)


def container(*flags: str) -> Option:
    """An option that names a blob container."""
    return Option(flags, "Name of the container.", is_required=True, completes=Live.CONTAINER)


def here(flags: tuple[str, ...], help: str, *, is_required: bool = True) -> Option:
    """An option that names a file or folder of this machine."""
    return Option(flags, help, is_required=is_required, completes=Live.PATH)


def text(flags: tuple[str, ...], help: str, *, is_required: bool = False) -> Option:
    """An option that takes any text."""
    return Option(flags, help, is_required=is_required)
