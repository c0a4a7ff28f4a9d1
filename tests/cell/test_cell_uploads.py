"""Files that go with a cell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from batchai_magics.cell import describe
from batchai_magics.cell.cell_job_spec import copy_command, only_copy, without_copy
from batchai_magics.cell.cell_uploads import MAX_EMPTY_FOLDERS, MAX_FILES, left_out_notes
from tests.cell.parsed_cells import JOB_JSON, cell, refused

PACKAGE = ("a/__init__.py", "a/models/__init__.py", "a/models/net.py", "a/data/x.csv", "a/data/y.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A notebook's folder with a package in it, next to one with a package of the same file names."""
    for name in PACKAGE:
        for place in ("nb", "lib"):
            put(tmp_path / place / name, f"{place}/{name}")
    return tmp_path / "nb"


def put(file: Path, text: str = "x") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def sent(line: str, folder: Path) -> dict[str, str]:
    """The uploads by their paths beside the script, which is left out."""
    files = {
        "/".join(path.split("/")[4:]): data.decode()
        for path, data in cell(line, folder=folder).uploads.items()
    }
    return {path: text for path, text in files.items() if path != "r.py"}


def test_a_copy_of_the_uploads_is_made_before_the_preparation_of_the_job(tmp_path):
    (tmp_path / "data.csv").touch()
    copy = 'cp -R "$AZ_BATCHAI_INPUT_SCRIPT/." .'
    asked = {
        "r --upload data.csv": f"{{ {copy} && rm -f r.py; }}",
        "r --upload data.csv --prep true": f"{{ {copy} && rm -f r.py; }} && true",
        "r --upload data.csv --use x": f"{{ {copy} && rm -f r.py run_cell.py variables.pkl; }}",
        "r --prep true": "true",
    }
    for line, command in asked.items():
        assert cell(line, folder=tmp_path, names={"x": 1}).spec.job_preparation.command_line == command
    assert cell("r", folder=tmp_path).spec.job_preparation is None


@pytest.mark.parametrize("own", ["mkdir -p -- out && make", "rm -f old.ckpt", "{ make; } && true"])
@pytest.mark.parametrize("excluded", [(), ("it's.py",)])
@pytest.mark.parametrize("empty_folders", [(), ("my figs", "runs")])
def test_preparation_of_the_user_is_told_from_the_copy_however_it_begins(own, excluded, empty_folders):
    copy = copy_command(excluded, empty_folders)
    assert (without_copy(f"{copy} && {own}"), only_copy(f"{copy} && {own}")) == (own, copy)
    assert (without_copy(own), only_copy(own), without_copy(copy)) == (own, "", "")


def test_a_job_file_keeps_its_preparation_behind_the_copy(tmp_path):
    (tmp_path / "train.py").touch()
    text = JOB_JSON + "  jobPreparation: {commandLine: make}\n"
    command = cell("r --spec --upload train.py", text, folder=tmp_path).spec.job_preparation.command_line
    assert command == 'cp -R "$AZ_BATCHAI_INPUT_SCRIPT/." . && make'


def test_files_with_one_name_keep_their_paths(folder):
    line = "r --upload a/__init__.py a/models/__init__.py"
    assert sent(line, folder) == {name: f"nb/{name}" for name in PACKAGE[:2]}


@pytest.mark.parametrize("word", ["a", "a/", "./a", "../nb/a", "{absolute}", "a/**", "."])
def test_folder_is_uploaded_with_all_its_files(folder, word):
    word = word.format(absolute=folder / "a")
    assert sent(f"r --upload {word}", folder) == {name: f"nb/{name}" for name in PACKAGE}


@pytest.mark.parametrize("word", ["a/data/*.csv", "a/*/[xy].csv", "**/?.csv", "'a/data/*'"])
def test_pattern_uploads_all_its_matches(folder, word):
    put(folder / "a/data/.hidden")
    assert set(sent(f"r --upload {word}", folder)) == {"a/data/x.csv", "a/data/y.csv"}


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("../lib/a/models/net.py", "net.py"),
        ("../lib/a/models", "models/net.py"),
        ("../lib/a", "a/models/net.py"),
        ("../lib/**/net.py", "a/models/net.py"),
    ],
)
def test_file_outside_the_notebooks_folder_keeps_only_its_name(folder, word, path):
    assert sent(f"r --upload {word}", folder)[path] == "lib/a/models/net.py"


def test_existing_file_whose_name_looks_like_a_pattern_is_uploaded(folder):
    put(folder / "x[1].csv")
    put(folder / "x1.csv")
    assert set(sent("r --upload x[1].csv", folder)) == {"x[1].csv"}


def test_patterns_work_in_a_folder_whose_name_looks_like_a_pattern(tmp_path):
    put(tmp_path / "[run]" / "x.csv")
    assert set(sent("r --upload *.csv", tmp_path / "[run]")) == {"x.csv"}


def test_caches_and_metadata_are_uploaded_only_if_named(folder):
    for name in ("a/__pycache__/net.pyc", "a/.git/config", "a/.ipynb_checkpoints/net.py", "a/old.pyc"):
        put(folder / name)
    assert set(sent("r --upload a", folder)) == set(PACKAGE)
    assert set(sent("r --upload a/.git", folder)) == {"a/.git/config"}
    assert set(sent("r --upload a/**", folder)) == set(PACKAGE)


def test_links_inside_the_folder_are_uploaded_as_their_targets(folder):
    (folder / "a/again.py").symlink_to("models/net.py")
    (folder / "a/nets").symlink_to("models")
    found = sent("r --upload a", folder)
    assert found["a/again.py"] == found["a/nets/net.py"] == "nb/a/models/net.py"


def test_a_link_that_is_named_is_followed(folder):
    (folder / "linked").symlink_to("../lib/a/models")
    assert sent("r --upload linked", folder)["linked/net.py"] == "lib/a/models/net.py"


def test_secrets_of_a_folder_stay_here_and_are_named(folder):
    put(folder / "a/.env")
    put(folder / "a/keys/id_rsa")
    (folder / "a/plain.txt").symlink_to(".env")
    request = cell("r --upload a", folder=folder)
    assert set(sent("r --upload a", folder)) == set(PACKAGE)
    (note,) = request.notes
    assert note.startswith(
        "not sent (a secret by its name): a/.env, a/keys/id_rsa, a/plain.txt; to send it: --upload "
    )
    assert "no file matches" not in str(cell("r --upload a/.e*", folder=folder).notes)


def test_files_that_may_be_the_database_of_a_home_are_left_out_with_a_note(folder):
    for name in ("state.db", "state.db-wal", "other.db"):
        put(folder / "a" / name)
    assert {*sent("r --upload 'a/*.db*'", folder)} == {"a/other.db"}
    (note,) = cell("r --upload 'a/*.db*'", folder=folder).notes
    reason = "the database of a home by its name"
    assert note == f"not sent ({reason}): a/state.db, a/state.db-wal; to send it: --upload a/state.db"
    assert {*sent("r --upload a/state.db", folder)} == {"a/state.db"}


def test_named_secret_is_sent_and_link_to_a_secret_is_not(folder):
    put(folder / ".env", "A=1")
    assert sent("r --upload .env", folder) == {".env": "A=1"}
    (folder / "plain.txt").symlink_to(".env")
    assert "this link leads to" in refused("r --upload plain.txt", folder=folder)


def test_note_says_that_an_upload_has_another_name(folder):
    (note,) = cell("r --upload ../lib/a/models a", folder=folder).notes
    assert note == "--upload ../lib/a/models: it is models for the script"


def test_file_named_twice_is_uploaded_once(folder):
    assert set(sent("r --upload a a/models/net.py ./a", folder)) == set(PACKAGE)


def test_unchanged_folder_gives_an_identical_job(folder):
    before = cell("r --upload a", folder=folder)
    for name in PACKAGE:
        os.utime(folder / name, (1, 1))
    put(folder / "a/__pycache__/x.pyc")
    assert cell("r --upload a", folder=folder).spec == before.spec
    (folder / "a/data/y.csv").rename(folder / "a/data/z.csv")
    assert cell("r --upload a", folder=folder).spec != before.spec


def test_a_dry_run_lists_the_files_with_their_sizes(folder):
    text = describe(cell("r --upload a", folder=folder))
    assert "/a/models/net.py  18 bytes" in text
    assert "  6 files, 109 bytes in all" in text


def test_a_dry_run_does_not_list_thousands_of_files(folder):
    for number in range(300):
        put(folder / "many" / f"{number}")
    assert "  … and 281 more files" in describe(cell("r --upload many", folder=folder))


def a_terabyte(folder: Path) -> None:
    with (folder / "a/large").open("wb") as file:
        file.truncate(1 << 40)  # of zeros that are stored nowhere


def many_files(folder: Path) -> None:
    for number in range(MAX_FILES):
        (folder / f"a/data/{number}").touch()


@pytest.mark.parametrize(
    ("fill", "told"),
    [(a_terabyte, "at most 256 MiB can be uploaded"), (many_files, f"at most {MAX_FILES} files")],
)
def test_oversized_upload_is_refused_before_reading_it_or_listing_the_rest_of_the_folder(folder, fill, told):
    (folder / "a/zz").symlink_to("/etc")  # which would be refused
    fill(folder)
    message = refused("r --upload a", folder=folder)
    assert message.startswith("--upload a: ")
    assert told in message
    assert "az storage file upload-batch" in message


def test_a_pipe_is_refused_and_not_opened(folder):
    os.mkfifo(folder / "a/pipe")
    assert f"{folder}/a/pipe is not a regular file" in refused("r --upload a", folder=folder)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("../../lib/a", "points out, to"),
        ("..", "leads to a folder that it is in"),
        ("nothing", "is a broken link"),
    ],
)
def test_links_that_cannot_be_followed_are_refused(folder, target, told):
    (folder / "a/link").symlink_to(target)
    message = refused("r --upload a", folder=folder)
    assert message.startswith("--upload a: ")
    assert told in message


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("r --upload nope.py", "--upload nope.py: there is no such file or folder"),
        ("r --upload *.nope", "--upload *.nope: no file matches"),
        ("r --upload caches", "--upload caches: there are no files in this folder"),
        ("r --spec --upload empty", "--upload empty: there are no files in this folder"),
        ("r --upload ../lib/a/__init__.py ../lib/a/models/__init__.py", "would both be __init__.py"),
        ("r --upload a.txt ../lib/a.txt", "would both be a.txt"),
        ("r --upload a ../lib/one/a", "would be a file where"),
        ("r --upload r.py", "the script itself has that name"),
        ("r --input SCRIPT=/x", "the input id SCRIPT is taken"),
    ],
)
def test_impossible_uploads_are_refused(line, told, folder):
    (folder / "empty").mkdir()
    (folder / "caches/__pycache__").mkdir(parents=True)
    for name in ("a.txt", "../lib/a.txt", "../lib/one/a", "r.py"):
        put(folder / name)
    body = JOB_JSON if "--spec" in line else "print(1)"
    assert told in refused(line, body, folder=folder)


@pytest.mark.parametrize(
    ("words", "made"),
    [("empty", "empty"), ("a 'my figs'", "a/logs/1 'my figs'"), (". empty", "a/logs/1 empty 'my figs'")],
)
def test_empty_folders_that_are_uploaded_are_in_the_working_directory(folder, words, made):
    for name in ("empty", "my figs", "a/logs/1"):
        (folder / name).mkdir(parents=True)
    command = cell(f"r --upload {words}", folder=folder).spec.job_preparation.command_line
    assert command == f'{{ cp -R "$AZ_BATCHAI_INPUT_SCRIPT/." . && rm -f r.py && mkdir -p -- {made}; }}'


def test_only_the_first_of_many_empty_folders_are_made_with_a_note(folder):
    for number in range(MAX_EMPTY_FOLDERS + 1):
        (folder / f"many/{number}").mkdir(parents=True)
    request = cell("r --upload many", folder=folder)
    assert request.notes == (
        f"the job has the first {MAX_EMPTY_FOLDERS} of {MAX_EMPTY_FOLDERS + 1} empty folders",
    )
    assert request.spec.job_preparation.command_line.count("many/") == MAX_EMPTY_FOLDERS


def test_note_does_not_suggest_uploading_a_secret():
    (note,) = left_out_notes({".env": "ignored", "data/raw": "ignored"})
    assert note == "not sent (ignored): .env, data/raw; to send it: --upload data/raw"
