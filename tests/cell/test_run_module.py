"""A module runs as `python -m` runs it."""

import subprocess
import sys

import pytest

from batchai_magics.cell.cell_request import RUN_MODULE
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path):
    """A folder with a package, one of whose modules imports another and starts processes."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "part.py").write_text("Z = 5\n")
    (tmp_path / "pkg" / "train.py").write_text(
        "import multiprocessing, sys\n"
        "from .part import Z\n"
        "def square(n): return n * n\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(Z, sys.argv[1:], pool.map(square, [3]), sorted(vars())[-3:], __package__)\n"
        "    if 'fail' in sys.argv: raise KeyError('labels')\n"
    )
    return tmp_path


def run(folder, *words):
    words = [sys.executable, *words]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    "words", [("pkg.train", "--lr", "1"), ("pkg.train", "fail"), ("pkg.none",), ("none",)]
)
def test_output_and_exit_code_equal_pythons(project, words):
    ours, python = run(project, RUN_MODULE, *words), run(project, "-m", *words)
    assert (ours.stdout, ours.returncode) == (python.stdout, python.returncode)
    assert ours.stderr.splitlines()[-1:] == python.stderr.splitlines()[-1:]


def test_a_traceback_starts_at_the_modules_own_frame(project):
    first, second, *_ = run(project, RUN_MODULE, "pkg.train", "fail").stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert f"{project / 'pkg' / 'train.py'}" in second
