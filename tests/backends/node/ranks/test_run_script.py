"""A script under MPI runs as `python SCRIPT` runs it, but for its end when it fails."""

from __future__ import annotations

import py_compile
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from batchai_magics.backends.node.job_environment import RUN_SCRIPT

pytestmark = pytest.mark.slow

LOOK = """
import sys
names = sorted(name for name in globals() if name not in ("__annotations__", "__builtins__", "sys"))
print(__name__, __file__, sys.argv, sys.path[0], names, __doc__, __spec__, __package__, __debug__)
print(sys.modules["__main__"].__dict__ is globals())
"""
CHILDREN = """
import multiprocessing
def square(number):
    return number * number
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, [3]))
"""
AT_EXIT = """
import atexit
word = "still there"
atexit.register(lambda: print(word))
"""


def run(
    script: Path, *arguments: str, by: tuple[str, ...] = (RUN_SCRIPT,)
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *by, str(script), *arguments], capture_output=True, text=True, check=False
    )


def script_file(folder: Path, text: str) -> Path:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    return script


@pytest.mark.parametrize("text", [LOOK, CHILDREN, AT_EXIT, "# coding: latin-1\nprint('\\xe9' == 'é')\n"])
def test_script_prints_the_same_as_with_plain_python(tmp_path, text):
    script = script_file(tmp_path, text)
    ours, plain = run(script, "-a", "b c"), run(script, "-a", "b c", by=())
    assert ours.stderr == plain.stderr == ""
    assert ours.stdout == plain.stdout != ""


def test_run_script_imports_no_modules_of_its_own(tmp_path):
    script = script_file(tmp_path, "import sys; print(*sorted(sys.modules))")
    ours, plain = (set(run(script, by=by).stdout.split()) for by in ((RUN_SCRIPT,), ()))
    assert ours - plain <= {"__future__"}


@pytest.mark.parametrize("kind", ["folder", "zip", "pyc"])
def test_folders_zips_and_bytecode_run_too(tmp_path, kind):
    script = script_file(tmp_path, "print(__name__)")
    (tmp_path / "folder").mkdir()
    script.rename(tmp_path / "folder/__main__.py")
    with zipfile.ZipFile(tmp_path / "zip", "w") as file:
        file.write(tmp_path / "folder/__main__.py", "__main__.py")
    py_compile.compile(str(tmp_path / "folder/__main__.py"), str(tmp_path / "pyc"))
    done = run(tmp_path / kind)
    assert (done.stdout, done.stderr, done.returncode) == ("__main__\n", "", 0)


@pytest.mark.parametrize(
    ("text", "code", "end"),
    [
        ("def f():\n    raise ValueError('no data')\nf()", 1, "ValueError: no data"),
        ("x = = 1", 1, "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('no data')", 1, "no data"),
        ("import sys; print('x'); sys.exit()", 0, ""),
    ],
)
def test_failing_script_has_the_exit_code_and_traceback_of_plain_python(tmp_path, text, code, end):
    script = script_file(tmp_path, text)
    ours, plain = run(script), run(script, by=())
    assert ours.returncode == plain.returncode == code
    assert ours.stderr.strip().endswith(end)
    assert ours.stderr == plain.stderr
