"""Paths of another machine say what pathlib says of the same files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from batchai_magics.backends.folders import entries, private_files
from batchai_magics.backends.machines import agent_files
from batchai_magics.backends.machines.ssh_connection import SshConnection

pytestmark = pytest.mark.slow
QUESTIONS = ("exists", "is_dir", "is_file", "is_symlink")


@pytest.fixture
def odd(tmp_path: Path) -> list[str]:
    """The names of many kinds of things in a folder."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to file").symlink_to("file")
    (tmp_path / "to folder").symlink_to(tmp_path / "folder")
    (tmp_path / "to nothing").symlink_to("nothing")
    (tmp_path / "to itself").symlink_to("to itself")
    os.mkfifo(tmp_path / "pipe")
    return [*sorted(path.name for path in tmp_path.iterdir()), "nothing", "file/inner"]


def test_things_are_the_same_from_there_and_in_a_snapshot(far, tmp_path, odd):
    for folders in ([], [far]):
        with private_files.read_ahead(folders):
            for name in odd:
                ours = [getattr(tmp_path / name, question)() for question in QUESTIONS]
                assert [getattr(far / name, question)() for question in QUESTIONS] == ours, name
            assert (far / "file").read_text() == "text"
    assert {path.name for path in far.iterdir()} == {path.name for path in tmp_path.iterdir()}
    assert sorted(map(str, far.glob("*fi*"))) == sorted(map(str, tmp_path.glob("*fi*")))


def test_single_files_are_told_together(far, tmp_path):
    (tmp_path / "file").write_text("text")
    with (
        private_files.read_ahead(files=[far / "other"]),
        private_files.read_ahead(files=[far / "file", far / "nothing"]),
    ):
        assert not (far / "other").exists()
        (tmp_path / "file").unlink()
        (tmp_path / "nothing").touch()
        assert (far / "file").read_text() == "text"
        assert not (far / "nothing").exists()
        (far / "nothing").unlink(missing_ok=True)
        assert not (far / "nothing").exists()
    assert not (far / "file").exists()


def test_a_snapshot_holds_what_was_until_this_thread_changes_it(far, tmp_path):
    (tmp_path / "file").write_text("before")
    with private_files.read_ahead([far]):
        assert (far / "file").read_text() == "before"
        (tmp_path / "file").write_text("after!")
        assert (far / "file").read_text() == "before"
        (far / "other").touch()
        assert (far / "file").read_text() == "after!"
    assert (far / "other").exists()


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda far: (far / "nothing").read_bytes(), FileNotFoundError),
        (lambda far: (far / "there").mkdir(), FileExistsError),
        (lambda far: (far / "there").read_bytes(), IsADirectoryError),
        (lambda far: (far / "nothing").unlink(), FileNotFoundError),
        (lambda far: (far / "there/a").hardlink_to(far / "b"), FileNotFoundError),
        (lambda far: (far / "file/inner").lstat(), NotADirectoryError),
    ],
)
def test_errors_are_those_of_this_system(far, tmp_path, act, error):
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(error) as caught:
        act(far)
    assert str(tmp_path) in str(caught.value)


def test_what_is_linked_twice_is_linked_once(far, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
    (far / "name").hardlink_to(far / "first")
    with pytest.raises(FileExistsError):
        (far / "name").hardlink_to(far / "second")
    assert (tmp_path / "name").read_text() == "first"


def test_a_path_there_is_no_path_here(far):
    with pytest.raises(TypeError, match="is on another machine"):
        os.fspath(far)
    with pytest.raises(TypeError, match="is on another machine"):
        os.open(far / "x", os.O_RDONLY)


def test_a_large_file_is_read_from_anywhere(far, tmp_path):
    data = os.urandom((5 << 20) + 7)
    (tmp_path / "large").write_bytes(data)
    assert (far / "large").read_bytes() == data
    with (far / "large").open_regular() as file:
        assert file.seek(0, os.SEEK_END) == len(data)
        for at in (0, 3 << 20, 17, len(data) - 3, len(data)):
            file.seek(at)
            assert file.read(10) == data[at : at + 10]


def test_however_far_beyond_its_end_a_file_has_nothing(far, tmp_path):
    (tmp_path / "file").write_text("text")
    found = [entries.read_slice(far / "file", at, 10).data for at in (3, 4, 5, 1 << 62)]
    assert found == [b"t", b"", b"", b""]


# what is written together


def test_what_is_written_at_once_takes_one_question(far, tmp_path, monkeypatch):
    (tmp_path / "old").touch()
    asked, ask = [], SshConnection.open
    monkeypatch.setattr(SshConnection, "open", lambda link, *more: asked.append(link) or ask(link, *more))
    with private_files.pipelined(far):
        private_files.make_folder(far / "inner")
        for name in ("one", "two"):
            private_files.write(far / "inner" / name, name)
        private_files.make_link(far / "links" / "to inner", far / "inner")
        private_files.make_link(far / "links" / "to inner", far)
        (far / "old").unlink(missing_ok=True)
    assert len(asked) == 1
    assert (tmp_path / "links/to inner").readlink() == tmp_path / "inner"
    names = ("inner", "inner/one", "inner/two", "links")
    assert [oct((tmp_path / name).stat().st_mode)[-3:] for name in names] == ["700", "600", "600", "700"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner", "links"]


def test_what_is_asked_meanwhile_comes_after_what_was_written(far, tmp_path):
    with private_files.pipelined(far):
        private_files.write(far / "file", "text")
        assert not (tmp_path / "file").exists()
        assert (far / "file").read_text() == "text"
        (far / "file").unlink(missing_ok=True)
    assert not (tmp_path / "file").exists()


def test_what_cannot_be_written_is_named_and_ends_the_rest(far, tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(OSError, match="taken/inner"), private_files.pipelined(far):  # noqa: PT012
        private_files.write(far / "before", "")
        private_files.write(far / "taken" / "inner", "")
        private_files.write(far / "after", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["before", "taken"]


def test_an_error_of_what_was_written_before_is_no_answer(far, tmp_path):
    """Else a folder that is in the way would pass for a file that is not there."""
    (tmp_path / "taken").touch()
    (tmp_path / "there").touch()
    with pytest.raises(OSError, match="taken/inner"), private_files.pipelined(far):  # noqa: PT012
        private_files.write(far / "taken" / "inner", "")
        assert (far / "there").exists()


def test_what_went_wrong_first_is_told_and_what_came_before_is_there(far, tmp_path):
    with pytest.raises(ValueError, match="first"), private_files.pipelined(far):  # noqa: PT012
        private_files.write(far / "file", "text")
        raise ValueError("first")
    assert (tmp_path / "file").read_text() == "text"


def test_a_new_file_is_written_once_and_whole(far, tmp_path):
    assert private_files.write_new(far / "a" / "file", "first")
    assert not private_files.write_new(far / "a" / "file", "second")
    assert (tmp_path / "a/file").read_text() == "first"
    assert [oct((tmp_path / name).stat().st_mode)[-3:] for name in ("a", "a/file")] == ["700", "600"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file"]
    with pytest.raises(FileNotFoundError):
        private_files.write_new(far / "b" / "file", "", needs=far / "a" / "other")
    assert not (tmp_path / "b").exists()


def test_repeated_put_new_succeeds_if_the_file_has_the_same_content(tmp_path):
    """The answer to the first question was lost with the connection."""
    file = str(tmp_path / "file")
    assert [agent_files.put_new(file, text, again=True)[0] for text in (b"own", b"own", b"other")] == [
        True,
        True,
        False,
    ]
    assert not agent_files.put_new(file, b"own")[0]
