"""The `sitecustomize` of jobs: it hides nobody else's, and no failure of it fails a script."""

import subprocess
import sys

import pytest

from batchai_magics.backends.node.job_environment import JOB_MODULES

pytestmark = pytest.mark.slow


def run(tmp_path, code, *, before="", after=""):
    """What a script prints whose module path has the hook, and other folders before and after it."""
    folders = []
    for name, source in (("before", before), ("hook", None), ("after", after)):
        (tmp_path / name).mkdir()
        text = JOB_MODULES["sitecustomize.py"].read_text() if source is None else source
        if text:
            (tmp_path / name / "sitecustomize.py").write_text(text)
        folders.append(str(tmp_path / name))
    env = {"PYTHONPATH": ":".join(folders)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


ASK = """
import os, sys
sys.stdout.flush()
(path,) = [p for p in (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
           if os.path.islink(p) and "batchai-stacks" in os.readlink(p)]
def here(): os.kill(os.getpid(), 50)
here()
print(open(path).read())
"""


def test_a_script_that_is_asked_tells_where_it_is_and_goes_on(tmp_path):
    assert "in here" in run(tmp_path, ASK)


def test_a_sitecustomize_behind_it_runs_too(tmp_path):
    assert run(tmp_path, ASK, after="print('the other one')").startswith("the other one\n")


def test_one_of_the_job_comes_first(tmp_path):
    assert run(tmp_path, "print('script')", before="print('mine')") == "mine\nscript\n"
