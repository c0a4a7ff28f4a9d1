"""What the archives hold: the front end's bundle, the types' mark, and nothing of npm's."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ["batchai_magics", "hatch_build.py", "pyproject.toml", "package.json", "package-lock.json"]
SOURCES += [".npmrc", ".gitignore", "jsconfig.json", "README.md", "LICENSE"]
# Of the wheel, 1.25 MB are Python, 0.17 MB the front end, 0.13 MB the zip's and RECORD's own.
(MAX_BYTES,) = map(int, re.findall(r"-le (\d+) ", (ROOT / ".ci/package").read_text(encoding="utf-8")))
BUNDLE = {f"batchai_magics/widgets/static/job_view.{kind}" for kind in ("js", "css")}


def test_no_lock_file_names_a_host():
    assert not re.search(r"resolved|https?://|registry", (ROOT / "package-lock.json").read_text())


def test_no_lock_file_of_the_tests_names_a_registry():
    locks = [
        ROOT / "tests/server/clients/js/package-lock.json",
        ROOT / "tests/widgets/mutants/package-lock.json",
    ]
    for lock in locks:
        assert not re.search(r'"resolved"|registry', lock.read_text()), lock


@pytest.fixture
def source(tmp_path_factory):
    """The sources as a clone has them: no bundle, no node_modules."""
    folder = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        place = ROOT / name
        if place.is_dir():
            shutil.copytree(place, folder / name, ignore=shutil.ignore_patterns("static", "__pycache__"))
        else:
            shutil.copy(place, folder)
    return folder


@pytest.mark.slow
def test_archives_hold_the_bundle_pass_the_checks_of_pypi_and_run_jobs(source, tmp_path):
    sdist = unpacked_sdist(source, tmp_path, owner="some-lab")
    wheel = wheel_without_node(sdist, tmp_path / "some-lab")
    holds_the_bundle_and_the_mark(wheel)
    links_to_the_repository(wheel)
    runs_jobs(wheel, tmp_path)
    shutil.copy(ROOT / "pyproject.toml", source)  # whose owner is nobody yet; the bundle is there by now
    wheel = wheel_without_node(source, tmp_path / "nobody")
    shows_no_dead_link(wheel)
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def unpacked_sdist(source, folder, *, owner):
    files = runpy.run_path(str(ROOT / ".ci/publish.py"))["as_owner"](owner)
    (source / "pyproject.toml").write_text(files["pyproject.toml"])
    build(source, "--sdist", folder)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(folder, filter="data")
    assert names >= BUNDLE | {"hatch_build.py", "package-lock.json"}
    assert not [name for name in names if "node_modules" in name]
    return next(path for path in folder.iterdir() if path.is_dir())


def wheel_without_node(source, folder):
    build(source, "--wheel", folder, path=str(folder))
    return next(folder.glob("*.whl"))


def holds_the_bundle_and_the_mark(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert names >= BUNDLE | {"batchai_magics/py.typed"}
    assert not [name for name in names if "node_modules" in name or "/frontend/" in name]
    static = {name for name in names if "/static/" in name}
    assert {name.rpartition("/")[0] for name in static} == {"batchai_magics/widgets/static"}
    assert all(re.search(r"_(view|dashboard)\.(css|js)$", name) for name in static)
    assert wheel.stat().st_size <= MAX_BYTES


def readme_of(wheel):
    """The README that PyPI shows."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return archive.read(name).decode().partition("\n\n")[2]


def shows_no_dead_link(wheel):
    """Without an owner of the repository, links lead nowhere else."""
    text = readme_of(wheel)
    assert "## Run a cell on two nodes" in text
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", text)


def runs_jobs(wheel, folder):
    """Where it is installed, with the dependencies of this environment, and no sources of the package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    command = [ROOT / ".ci/smoke", folder / "venv/bin/python", folder / "smoke"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(site))
    assert "rank 0\nrank 1\n" in done.stdout


def links_to_the_repository(wheel):
    text = readme_of(wheel)
    assert "](https://github.com/some-lab/batchai_magics/blob/main/docs/start.md)" in text
    assert "](https://github.com/some-lab/batchai_magics/raw/main/docs/replay.png)" in text
    assert not re.findall(r"\]\((?!https?:)[^)]*\)", text)


def build(source, kind, out, *, path=None):
    env = {**os.environ, "PATH": path or os.environ["PATH"]}
    command = [sys.executable, "-m", "build", kind, "--outdir", str(out), str(source)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
