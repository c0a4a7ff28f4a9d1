"""The files of a project that go along with a script."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path, PurePath

import pytest

from batchai_magics.backends.local.settings import LocalSettings
from batchai_magics.cell import Notebook, parse_script
from batchai_magics.cell.cell_uploads import DOWNLOAD, MAX_EMPTY_FOLDERS, SECRET, left_out_notes, read_uploads
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.jobs import folder_snapshot
from batchai_magics.jobs.folder_snapshot import read_module, read_script, snapshot
from tests.calls import calls_of

LOOP = "a link to a folder that it is in"
pytestmark = pytest.mark.slow  # they start git


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "project"
    for name in ("train.py", "pkg/__init__.py", "pkg/__pycache__/x.pyc", "data/big.bin", ".venv/lib.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def test_files_keep_their_paths_and_caches_stay_behind(folder):
    assert snapshot(folder).files == {
        "train.py": b"train.py",
        "pkg/__init__.py": b"pkg/__init__.py",
        "data/big.bin": b"data/big.bin",
    }


@pytest.mark.parametrize("has_git", [False, True])
def test_file_whose_name_is_not_utf8_is_sent(folder, has_git):
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    if has_git:
        git(folder, "init", "-q")
    assert snapshot(folder).files["caf\\xe9.txt"] == b"x"


def test_files_that_batchaiignore_matches_are_not_sent(folder):
    (folder / ".batchaiignore").write_text("data/\n# a comment\n*.log\n")
    (folder / "a.log").touch()
    assert {*snapshot(folder).files} == {".batchaiignore", "train.py", "pkg/__init__.py"}


@pytest.mark.parametrize("has_git", [False, True])
def test_empty_folders_are_sent_and_folders_of_excluded_files_are_not(folder, has_git):
    (folder / ".gitignore").write_text("figs/\nruns/\n")
    (folder / ".batchaiignore").write_text("runs/\nscratch/\n")
    for name in ("figs", "checkpoints/a", "checkpoints/b", "data/new", "__pycache__", "scratch"):
        (folder / name).mkdir(parents=True)
    (folder / "runs/1").mkdir(parents=True)
    (folder / "runs/1/loss.txt").touch()
    if has_git:
        git(folder, "init", "-q")
    assert snapshot(folder).empty_folders == ("checkpoints/a", "checkpoints/b", "data/new", "figs")


def test_only_the_first_of_many_empty_folders_are_sent_with_a_note(folder):
    for number in range(MAX_EMPTY_FOLDERS + 1):
        (folder / f"empty/{number:03}").mkdir(parents=True)
    taken = snapshot(folder)
    assert len(taken.empty_folders) == MAX_EMPTY_FOLDERS
    assert taken.notes == ("the job has the first 100 of 101 empty folders",)


def test_no_path_object_is_made_of_each_folder(folder):
    for number in range(100):
        (folder / f"many/{number}").mkdir(parents=True)
    with calls_of(PurePath.relative_to) as calls:
        assert len(snapshot(folder).empty_folders) == 100
    assert calls.count < 50


def test_empty_folders_may_be_deeper_than_calls_of_python(folder):
    git(folder, "init", "-q")
    deepest = folder
    for _ in range(sys.getrecursionlimit() + 1):
        deepest /= "a"
        deepest.mkdir()
    try:
        taken = snapshot(folder)
    finally:
        os.removedirs(deepest)  # which pytest cannot
    assert taken.empty_folders == (deepest.relative_to(folder).as_posix(),)


_SNAPSHOT_OF_ROOT = """
import os, sys
from pathlib import Path
from batchai_magics.jobs.folder_snapshot import snapshot
os.chroot(sys.argv[1])
print(*snapshot(Path("/")).files)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root")
def test_project_in_the_root_of_a_container_heeds_its_ignore_file(folder):
    (folder / ".batchaiignore").write_text("data/*.bin\npkg\n")
    words = [sys.executable, "-c", _SNAPSHOT_OF_ROOT, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == {".batchaiignore", "train.py"}


def test_an_upload_takes_the_place_of_an_empty_folder_of_its_name(folder, tmp_path):
    for name in ("logs", "runs/1", "figs"):
        (folder / name).mkdir(parents=True)
    for name in ("logs", "runs"):
        (tmp_path / name).touch()
    words = ["--upload", str(tmp_path / "logs"), "--upload", str(tmp_path / "runs")]
    notebook = Notebook(folder=folder, job_name="train")
    script = read_script(Path("train.py"), folder)
    request = parse_script(words, [], script, settings=Settings(), notebook=notebook)
    assert request.spec.job_preparation.command_line.endswith(" && mkdir -p -- figs; }")


@pytest.mark.parametrize("has_git", [False, True])
def test_virtual_environment_of_any_name_is_not_sent(folder, has_git):
    (folder / "data" / "pyvenv.cfg").touch()
    if has_git:
        git(folder, "init", "-q")
    assert {*snapshot(folder).files} == {"train.py", "pkg/__init__.py"}


def test_files_ignored_by_git_are_not_sent_and_untracked_files_are(folder):
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("data/\n")
    git(folder, "add", "train.py", ".gitignore")
    (folder / "linked").symlink_to("data")
    taken = snapshot(folder)
    assert {*taken.files} == {".gitignore", "train.py", "pkg/__init__.py"}
    assert taken.left_out == {"linked": "a link to what is not sent"}


def test_subfolder_of_a_repository_is_sent_alone_without_deleted_files(folder):
    git(folder, "init", "-q")
    git(folder, "add", "train.py", "pkg/__init__.py")
    (folder / "pkg/__init__.py").unlink()
    (folder / "pkg/model.py").touch()
    assert {*snapshot(folder / "pkg").files} == {"model.py"}


def test_link_that_leads_outside_is_not_sent_and_is_named(folder):
    (folder.parent / "secret").touch()
    (folder / "out").symlink_to(folder.parent / "secret")
    (folder / "in.py").symlink_to("train.py")
    taken = snapshot(folder)
    assert taken.left_out == {"out": "a link that leads outside"}
    assert taken.files["in.py"] == b"train.py"


@pytest.mark.parametrize("has_git", [False, True])
def test_links_inside_the_folder_are_sent_as_their_targets(folder, has_git):
    (folder / "pkg/data").symlink_to("../data")
    (folder / "pkg/all").symlink_to("..")
    (folder / "again").symlink_to("pkg")
    if has_git:
        git(folder, "init", "-q")
    taken = snapshot(folder)
    assert {name for name in taken.files if "big.bin" in name} == {
        "data/big.bin",
        "pkg/data/big.bin",
        "again/data/big.bin",
    }
    assert taken.left_out == {"pkg/all": LOOP, "again/all": LOOP}


def test_cyclic_links_are_not_followed_endlessly(folder):
    for number in range(40):  # 2 to the power of 40 paths
        (folder / f"d{number}").mkdir()
        for name in ("a", "b"):
            (folder / f"d{number}" / name).symlink_to(f"../d{number + 1}")
    (folder / "d40").mkdir()
    (folder / "d40/x").touch()
    assert "too many links" in snapshot(folder).left_out.values()


SECRETS = (
    ".env",
    ".env.local",
    ".envrc",
    "a/.netrc",
    ".aws/config",
    "keys/id_rsa",
    "Cert.PEM",
    "credentials.json",
)


@pytest.mark.parametrize("has_git", [False, True])
def test_secrets_and_links_to_them_are_not_sent_even_if_tracked(folder, has_git):
    for name in (*SECRETS, ".config/gcloud/x.db", ".env.example"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("hush")
    (folder / "harmless.txt").symlink_to(".env")
    if has_git:
        git(folder, "init", "-q")
        git(folder, "add", ".")
    taken = snapshot(folder)
    assert [name for name, data in taken.files.items() if data == b"hush"] == [".env.example"]
    assert taken.left_out == dict.fromkeys(
        (*SECRETS, ".config/gcloud/x.db", "harmless.txt"), "a secret by its name"
    )


def test_large_file_is_not_sent_and_is_named(folder):
    with (folder / "data/big.bin").open("wb") as file:
        os.truncate(file.fileno(), folder_snapshot.MAX_FILE_BYTES + 1)
    taken = snapshot(folder)
    assert "data/big.bin" not in taken.files
    assert taken.left_out == {"data/big.bin": "more than 10 MiB"}


def test_each_submodule_is_listed_by_itself(folder):
    git(folder, "init", "-q")
    sub = folder / "vendor/lib"
    sub.mkdir(parents=True)
    git(sub, "init", "-q")
    for name, text in {".gitignore": "*.tmp\n", "lib.py": "", "x.tmp": ""}.items():
        (sub / name).write_text(text)
    assert {"vendor/lib/lib.py", "vendor/lib/.gitignore"} <= {*snapshot(folder).files}
    git(sub, "add", ".")
    git(sub, "-c", "user.name=me", "-c", "user.email=me@host", "commit", "-qm", "first")
    git(folder, "add", "vendor/lib")  # from now on a link to a commit
    assert {name for name in snapshot(folder).files if "vendor" in name} == {
        "vendor/lib/.gitignore",
        "vendor/lib/lib.py",
    }


@pytest.fixture(params=["dubious", "damaged index", "no git", "slow"])
def unlisted(request, folder, monkeypatch):
    """A repository that git does not list, with files that are ignored in each of the ways there are."""
    git(folder, "init", "-q")
    ignored = {"data/": ".gitignore", "deep.txt": "pkg/.gitignore", "mine.txt": ".git/info/exclude"}
    for pattern, file in ignored.items():
        (folder / file).write_text(f"{pattern}\n!keep.txt\n")
    for name in ("pkg/deep.txt", "pkg/sub/deep.txt", "pkg/keep.txt", "mine.txt", "users.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    home = folder.parent / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("users.txt\nkeep.txt\n")  # what the files below take back
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if request.param == "dubious":
        monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    elif request.param == "damaged index":
        git(folder, "add", "train.py")
        (folder / ".git/index").write_bytes(b"DIRC nonsense")
    elif request.param == "no git":
        monkeypatch.setenv("PATH", str(home))
    else:
        monkeypatch.setattr(folder_snapshot, "_TIMEOUT_S", 0.0)
    return folder


SENT = {".gitignore", "pkg/.gitignore", "pkg/__init__.py", "pkg/keep.txt", "train.py"}


def test_link_to_a_secret_file_is_reported_as_a_secret(folder):
    (folder / ".batchaiignore").write_text(".env\n")
    (folder / ".env").write_text("TOKEN=hush")
    (folder / "settings").symlink_to(".env")
    taken = snapshot(folder)
    assert "settings" not in taken.files
    assert taken.left_out["settings"] == SECRET


def test_ignore_files_are_applied_with_a_note_if_git_fails(unlisted, request):
    taken = snapshot(unlisted)
    assert {*taken.files} == SENT
    (note,) = taken.notes
    is_dubious = request.node.callspec.params["unlisted"] == "dubious"
    assert ("dubious ownership" if is_dubious else "git") in note
    assert {*snapshot(unlisted / "pkg").files} == {".gitignore", "__init__.py", "keep.txt"}


def test_pipes_in_place_of_gits_files_do_not_block_a_snapshot(folder, monkeypatch):
    git(folder, "init", "-q")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    for name in (".gitignore", "pkg/.gitignore", ".git/info/exclude"):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    assert "train.py" in snapshot(folder).files
    shutil.rmtree(folder / ".git")
    os.mkfifo(folder / ".git")
    assert "train.py" in snapshot(folder).files


def test_a_folder_that_is_too_large_is_refused_with_its_largest_entries(folder):
    for number in range(6):
        with (folder / f"data/{number}.bin").open("wb") as file:
            os.truncate(file.fileno(), folder_snapshot.MAX_FILE_BYTES)
    with pytest.raises(UsageError, match=r"at most .* 50 MiB .* largest: data/ \(60\.0 MiB\)") as caught:
        snapshot(folder)
    assert ".batchaiignore" in caught.value.hint


def test_a_folder_with_too_many_files_is_refused(folder, monkeypatch):
    monkeypatch.setattr(folder_snapshot, "MAX_FILES", 2)
    with pytest.raises(UsageError, match="has 3 files"):
        snapshot(folder)


@pytest.fixture
def lists_thirty(monkeypatch):
    """Thirty paths are far too many."""
    monkeypatch.setattr(folder_snapshot, "_MAX_LISTED", 30)


def test_excluded_folders_are_not_listed(folder, lists_thirty):
    for place in ("env/lib", "images/1", "node/__pycache__"):
        (folder / place).mkdir(parents=True)
        for number in range(30):
            (folder / place / f"{number}.bin").touch()
    (folder / "env/pyvenv.cfg").touch()
    (folder / ".batchaiignore").write_text("images/\n")
    assert {"train.py", "data/big.bin"} < {*snapshot(folder).files}


def test_a_folder_with_far_too_many_files_is_refused_with_the_largest_entries_found(folder, lists_thirty):
    for number in range(200):
        (folder / f"images/{number}").mkdir(parents=True)
        (folder / f"images/{number}/a.png").write_text("x")
    with (
        pytest.raises(
            UsageError, match=r"has more than 30 files; .* The largest of those found: .*images/ "
        ) as caught,
        calls_of(os.scandir) as listed,
    ):
        snapshot(folder)
    assert ".batchaiignore" in caught.value.hint
    assert 0 < listed.count < 150  # of more than 200 folders


def test_files_that_vanish_during_listing_are_no_error(folder, monkeypatch):
    def scan_and_remove(path, scan=os.scandir):
        entries = list(scan(path))
        if path == folder:
            shutil.rmtree(folder / "data", ignore_errors=True)
        return contextlib.nullcontext(entries)

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    assert {*snapshot(folder).files} == {"train.py", "pkg/__init__.py"}


def test_home_of_a_backend_is_not_sent(folder):
    home = folder / "jobs"
    (home / "shares").mkdir(parents=True)
    (home / "state.db").write_text("x")
    settings = Settings(sections={"local": LocalSettings(home=home)})
    files = read_script(Path("train.py"), folder, settings).files
    assert "train.py" in files
    assert not [name for name in files if name.startswith("jobs/")]
    settings = Settings(sections={"local": LocalSettings(home=folder)})
    assert {*read_script(Path("pkg/__init__.py"), folder, settings).files} == {"pkg/__init__.py"}
    assert {*read_script(Path("__init__.py"), folder / "pkg", settings).files} == {"__init__.py"}


@pytest.mark.parametrize("has_git", [False, True])
def test_folder_of_a_download_is_not_sent_and_is_named(folder, has_git, world):
    job = world.run("made", "open('model.pt', 'w').write('x')")
    job.download(to=folder)
    job.download("stdout.txt", to=folder / "data")
    if has_git:
        git(folder, "init", "-q")
    script = read_script(Path("train.py"), folder)
    assert {*script.files} == {"train.py", "pkg/__init__.py", "data/big.bin", "data/stdout.txt"}
    assert script.left_out == {"made": "downloaded from a job"}
    (note,) = left_out_notes(script.left_out)
    assert note == "not sent (downloaded from a job): made; to send it: --upload made"
    assert any(name.endswith("model.pt") for name in read_uploads(["made"], folder).files)
    (folder / "train.py").write_text("open('made/stdouterr/stdout.txt')")
    missed = read_script(Path("train.py"), folder).left_out["made/stdouterr/stdout.txt"]
    assert missed == "downloaded from a job, but the script mentions it"


def test_script_in_the_folder_of_a_download_is_sent_with_its_modules(folder):
    made = folder / "made" / "workdir"
    made.mkdir(parents=True)
    (folder / "made" / DOWNLOAD).write_text("made")
    for name in ("test.py", "model.py"):
        (made / name).write_text("x = 1")
    script = read_script(Path("made/workdir/test.py"), folder)
    assert {"made/workdir/test.py", "made/workdir/model.py"} <= {*script.files}
    assert not script.left_out


def test_working_directory_is_sent_and_its_script_keeps_its_path(folder, tmp_path):
    script = read_script(Path("pkg/__init__.py"), folder)
    assert (script.folder, script.name) == (folder, "pkg/__init__.py")
    assert {"train.py", "data/big.bin"} <= {*script.files}
    (tmp_path / "link").symlink_to(folder)  # the same project
    assert read_script(folder / "pkg/__init__.py", tmp_path / "link").name == "pkg/__init__.py"
    here = tmp_path / "here"
    here.mkdir()
    script = read_script(Path("../project/train.py"), here)  # it has its own folder
    assert (script.folder, script.name) == (folder, "train.py")
    assert "pkg/__init__.py" in script.files


@pytest.mark.parametrize("where", ["/", "home", "above", "/etc"])
def test_no_home_folder_and_no_folder_of_the_system_is_sent(folder, monkeypatch, where):
    monkeypatch.setenv("HOME", str(folder if where == "home" else folder / "pkg"))
    root = Path(where) if where.startswith("/") else folder
    with pytest.raises(UsageError, match="sends the files of the working directory") as caught:
        read_script(folder / "train.py", root)
    assert "batchai run train.py" in caught.value.hint
    if where == "home":
        with pytest.raises(UsageError, match="your home folder"):
            read_module("installed.train", folder)


def test_the_project_of_a_script_is_named_where_the_home_folder_is_refused(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    git(folder, "init", "-q")
    with pytest.raises(UsageError) as caught:
        read_script(Path("project/pkg/__init__.py"), folder.parent)
    assert caught.value.hint == f"Write: cd {folder} && batchai run pkg/__init__.py"


@pytest.mark.parametrize("script", ["/etc/hostname", "/etc/passwd", "../notes.txt"])
def test_no_folder_is_sent_for_a_file_that_is_no_script(folder, script):
    (folder.parent / "notes.txt").write_text("x")
    with pytest.raises(UsageError):
        read_script(Path(script), folder)


def test_file_that_replaced_a_tracked_folder_is_sent(folder):
    git(folder, "init", "-q")
    git(folder, "add", "pkg")
    shutil.rmtree(folder / "pkg")
    (folder / "pkg").write_text("a file")
    assert snapshot(folder).files["pkg"] == b"a file"


@pytest.mark.parametrize(
    "text", ["x" * 9999, "a/" * 149, "..", ".", "~", "\\", "\ud800", "é" * 200, "a\nb\0"]
)
def test_texts_of_a_script_that_are_no_paths_are_no_error(folder, text):
    (folder / "train.py").write_text(f"x = {text!a}")
    assert read_script(Path("train.py"), folder).left_out == {}


def test_empty_folder_that_the_script_mentions_is_not_reported(folder):
    (folder / "checkpoints/a").mkdir(parents=True)
    (folder / "train.py").write_text("open('checkpoints/a/x', 'w'); print('checkpoints')")
    assert read_script(Path("train.py"), folder).left_out == {}


def test_an_ignored_path_that_the_script_mentions_is_named(folder):
    git(folder, "init", "-q")
    (folder / ".gitignore").write_text("data/\nsettings.py\n")
    (folder / "settings.py").touch()
    (folder / "train.py").write_text(
        "import settings\nopen('data/big.bin'); open('pkg/__init__.py'); open('gone')"
    )
    script = read_script(Path("train.py"), folder)
    reason = "ignored, but the script mentions it"
    assert script.left_out == {"settings.py": reason, "data/big.bin": reason}
    assert [*script.notes(())] == [
        f"not sent ({reason}): settings.py, data/big.bin; to send it: --upload settings.py"
    ]
    assert [*script.notes(["settings.py", "data/big.bin"])] == []
    notebook = Notebook(folder=folder, job_name="train")
    request = parse_script([], [], script, settings=Settings(), notebook=notebook)
    assert request.source.remedies["file data/big.bin"].endswith("add --upload data/big.bin")


@pytest.mark.parametrize("name", ["job.json", "base.yaml", "base.yml", "JOB.JSON"])
def test_json_or_yaml_file_is_refused_with_the_right_command(folder, name):
    (folder / name).write_text("lr: 0.1\n")  # Python runs it, and nothing happens
    with pytest.raises(UsageError, match=f"{name} is no script; a job runs Python") as caught:
        read_script(Path(name), folder)
    assert f"batchai run --spec {name}" in str(caught.value)


@pytest.mark.parametrize(("name", "first"), [("train.sh", ""), ("train", "#!/usr/bin/env bash\n")])
def test_shell_script_is_refused_with_the_right_command(folder, name, first):
    (folder / name).write_text(f"{first}python train.py\n")
    with pytest.raises(UsageError, match=f"{name} is a shell script") as caught:
        read_script(Path(name), folder)
    assert "batchai run -- torchrun train.py" in str(caught.value)
