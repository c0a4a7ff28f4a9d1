"""The `sitecustomize` of jobs: it hides nobody else's, and no failure of it fails a script."""

import shutil
import subprocess
import sys
import sysconfig

import pytest

from batchai_magics.backends.node.job_environment import JOB_MODULES

pytestmark = pytest.mark.slow


def run(tmp_path, code, *, before="", after="", package="", compiled=None):
    """What a script prints whose module path has the hook, and other folders before and after it.

    Args:
        package: The source of a package `sitecustomize` behind it, which has a module `helper`.
        compiled: An extension module that is moved behind it.
    """
    folders = []
    for name, source in (("before", before), ("hook", None), ("after", after)):
        (tmp_path / name).mkdir()
        text = JOB_MODULES["sitecustomize.py"].read_text() if source is None else source
        if text:
            (tmp_path / name / "sitecustomize.py").write_text(text)
        folders.append(str(tmp_path / name))
    if package:
        inside = tmp_path / "after" / "sitecustomize"
        inside.mkdir()
        (inside / "__init__.py").write_text(package)
        (inside / "helper.py").write_text("print('helper of', __package__)")
    if compiled:
        compiled.rename(tmp_path / "after" / compiled.name)
    env = {"PYTHONPATH": ":".join(folders)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_a_later_sitecustomize_runs_too(tmp_path):
    assert run(tmp_path, "print('script')", after="print('the other one')") == "the other one\nscript\n"


def test_a_later_sitecustomize_may_be_a_package(tmp_path):
    source = "from . import helper\nprint(__package__, __path__ is not None)"
    printed = run(tmp_path, "import sitecustomize.helper", package=source)
    assert printed == "helper of sitecustomize\nsitecustomize True\n"


EXTENSION = """
#include <Python.h>
static int run(PyObject *module) { return PyRun_SimpleString("print('compiled')"); }
static PyModuleDef_Slot slots[] = {{Py_mod_exec, run}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "sitecustomize", .m_slots = slots};
PyMODINIT_FUNC PyInit_sitecustomize(void) { return PyModuleDef_Init(&definition); }
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="there is no compiler for C")
def test_a_later_sitecustomize_may_be_compiled(tmp_path):
    (tmp_path / "s.c").write_text(EXTENSION)
    made, headers = tmp_path / "sitecustomize.so", sysconfig.get_path("include")
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{headers}", "-o", made, tmp_path / "s.c"], check=True)
    assert run(tmp_path, "print('script')", compiled=made) == "compiled\nscript\n"


def test_a_sitecustomize_of_the_job_runs_first(tmp_path):
    assert run(tmp_path, "print('script')", before="print('mine')") == "mine\nscript\n"
