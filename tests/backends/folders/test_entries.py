"""Paths below a folder: resolved there, and refused where a link leads out of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from batchai_magics.backends.folders.entries import resolve_inside
from batchai_magics.errors import StorageError

INSIDE = (
    "",
    "a/b/file",
    "a/none/below",
    "a/b/file/below",
    "a/./b//file",
    "a/../a/b",
    "none/../a",
    "inner/file",
    "self/a/b",
    "ring",
    "dangling",
    "a/up/a/b/file",
)
OUTSIDE = ("..", "../folder-2", "out", "out/file", "a/../../x", "deep/x", "none/../../x")


@pytest.fixture(params=["as it is", "behind a link"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    real = tmp_path / "real"
    (real / "a/b").mkdir(parents=True)
    (real / "a/b/file").touch()
    (tmp_path / "folder-2").mkdir()
    links = {"inner": "a/b", "self": ".", "ring": "ring", "dangling": "a/later", "a/up": ".."}
    links |= {"out": str(tmp_path / "folder-2"), "deep": "a/../../folder-2"}
    for name, target in links.items():
        (real / name).symlink_to(target)
    if request.param == "as it is":
        return real
    (tmp_path / "link").symlink_to("real")
    return tmp_path / "link"


def test_path_is_resolved_like_by_the_system_but_relative_to_the_folder(folder):
    for path in INSIDE:
        found = resolve_inside(folder, path)
        assert os.path.realpath(found) == os.path.realpath(folder / path)
        assert found.is_relative_to(folder)


def test_a_path_out_of_the_folder_is_refused(folder):
    for path in OUTSIDE:
        with pytest.raises(StorageError, match="outside"):
            resolve_inside(folder, path)
