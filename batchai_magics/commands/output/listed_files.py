"""The kinds of listed files that are shown with columns of their own: blobs, and what setup tasks wrote."""

from __future__ import annotations

from dataclasses import dataclass

from batchai_magics.backends.base import OutputFile, ShareFile


@dataclass(frozen=True)
class Blob(ShareFile):
    """A blob; it has columns of its own."""


@dataclass(frozen=True)
class SetupFile(OutputFile):
    """A file or folder that a setup task wrote; it has columns of its own."""
