import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchai_magics.cell import Notebook, cell_script, parse
from batchai_magics.cell.cell_job_spec import files_folder
from batchai_magics.cell.cell_options import CellOptions
from batchai_magics.cell.cell_script import (
    CompiledScript,
    compile_script,
    script_file,
    script_metadata,
    with_environment,
)
from batchai_magics.config import Settings
from batchai_magics.errors import ScriptError, UsageError
from batchai_magics.models.resource_ids import Kind, ResourceId
from tests.cell.shiny_wheel import needs_uv, shiny_wheel
from tests.world import World

WORKSPACE = ResourceId("sub", "group", "w")
JOB = WORKSPACE.child(Kind.EXPERIMENT, "e").child(Kind.JOB, "j")


def refused(body):
    with pytest.raises(ScriptError) as caught:
        compile_script(body)
    return caught.value


def test_a_warning_of_the_compiler_is_left_to_the_run():
    assert compile_script(r"x = '\d'")


@pytest.mark.parametrize(
    ("body", "line"),
    [("(", 2), ("x = 1\nreturn x", 3), ("\n\n  x = 1", 4), ("if 1:\n", 2), ("a\r\nb c\r\n", 3)],
)
def test_line_number_counts_within_the_cell(body, line):
    error = refused(body)
    assert error.line == line
    assert f"at line {line} of the cell" in error.message


def test_a_caret_points_below_tabs():
    assert refused("if 1:\n\tx = = 1").message.splitlines()[1:] == ["        x = = 1", "            ^"]


def test_a_long_line_is_shown_in_part():
    shown = refused("x = [" + "1, " * 10_000 + "= 2]").message.splitlines()[1:]
    assert all(len(line) < 120 for line in shown)
    assert shown[0][shown[1].index("^")] == "="


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("%matplotlib inline", "plain Python"),
        ("%%time", "plain Python"),
        ("?print", "plain Python"),
        ("print??", "plain Python"),
        ("x = %pwd", "plain Python"),
        ("!apt install -y gcc", "--prep 'apt install -y gcc'"),
        ("files = !ls", "--prep ls"),
        ("!pip install -q einops 'numpy<2'", "--with einops --with 'numpy<2'"),
        ("%pip install einops", "--with einops"),
        ("!python -m pip install -r reqs.txt", "--upload reqs.txt --prep 'pip install -r reqs.txt'"),
        ("%env DATA=/data", "--env DATA=/data"),
        ("await train()", "asyncio.run(main())"),
        ("async with a: pass", "asyncio.run(main())"),
        ("[x async for x in y]", "asyncio.run(main())"),
    ],
)
def test_a_line_for_ipython_gets_a_hint(line, told):
    assert told in refused(f"x = 1\n{line}\n").hint


@pytest.mark.parametrize("line", ["x = = 1", "print 'why?'", "return 1"])
def test_another_error_has_no_hint_about_ipython(line):
    assert not refused(line).hint


def test_future_imports_of_the_package_do_not_apply_to_the_script():
    assert compile_script("def f(x: undefined_name): pass")
    assert compile_script("from __future__ import annotations\nx: y = 1")


@pytest.mark.parametrize(
    "body", ["x = '\0'", "x = '\ud800'", "(" * 10_000 + ")" * 10_000, "-" * 100_000 + "1"]
)
def test_script_that_is_not_valid_python_is_refused(body):
    assert refused(body)


def test_a_cell_of_comments_is_refused():
    with pytest.raises(UsageError, match="nothing but comments"):
        compile_script("# later\n")


@given(st.text())
def test_any_text_is_a_script_or_a_clear_error(body):
    try:
        script = compile_script(body)
    except UsageError:
        return
    assert script.text.encode() == body.encode()


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)


@example({"a": b"1", "b": b"2"}, {"b": b"2", "a": b"1"})
@example({"a": b"1", "b": b"2"}, {"a": b"1", "b": b"3"})
@given(st.dictionaries(names, st.binary()), st.dictionaries(names, st.binary()))
def test_equal_folders_need_equal_files(first, second):
    folders = [files_folder(JOB, files) for files in (first, second)]
    assert (folders[0] == folders[1]) == (first == second)


@pytest.mark.parametrize(
    ("job", "body", "name"),
    [
        ("keras", "import keras.layers as layers", "keras_cell.py"),
        ("torch", "def f():\n    from torch.nn import Linear", "torch_cell.py"),
        ("random", "import torch", "random_cell.py"),  # which torch imports
        ("keras", "import torch", "keras.py"),
        ("keras", "from .keras import x", "keras.py"),
        ("keras", "(", "keras.py"),
    ],
)
def test_the_script_does_not_hide_a_module_that_it_needs(job, body, name):
    assert script_file(job, body) == name


BLOCK = """# /// script
# requires-python = ">=3.10"
# dependencies = [
#   "einops",
# ]
# ///
import einops
"""


def test_the_block_of_a_script_is_read():
    metadata = script_metadata(BLOCK)
    assert (metadata.packages, metadata.python) == (("einops",), ">=3.10")
    assert script_metadata("print(1)") is None


@pytest.mark.parametrize("line", ["# dependencies = [", '# dependencies = "einops"', "# dependencies = [1]"])
def test_a_wrong_block_is_refused(line):
    with pytest.raises(UsageError, match="`# /// script` is not valid"):
        script_metadata(f"# /// script\n{line}\n# ///\n")


def test_the_same_packages_share_an_environment_and_others_do_not():
    def python_of(*packages, script=""):
        return with_environment(CellOptions(packages=packages), script, "/share")[0].python

    assert python_of("einops") == python_of("einops") != python_of("numpy")
    assert python_of("einops") != python_of(script=BLOCK)
    assert python_of("einops").startswith("/share/environments/")


@pytest.mark.parametrize("toolkit", ["horovod", "pytorch", "custom", "mpi"])
def test_a_python_starts_the_script_of_every_toolkit(toolkit):
    notebook = Notebook(job_name="j")
    line = f"--toolkit {toolkit} --python /opt/py/bin/python"
    settings = parse(line, "print(1)", settings=Settings(), notebook=notebook).spec.settings
    assert "/opt/py/bin/python" in settings.model_dump_json()


def test_a_python_and_packages_exclude_each_other():
    with pytest.raises(UsageError, match="--python and --with are both given"):
        with_environment(CellOptions(python="p", packages=("a",)), "", "/share")


@needs_uv
@pytest.mark.slow
def test_a_block_makes_an_environment_without_other_packages(tmp_path):
    world = World(tmp_path)
    block = f"# /// script\n# dependencies = ['shiny @ file://{shiny_wheel(tmp_path)}']\n# ///\n"
    look = "import importlib.util, shiny; print(shiny.COLOUR, importlib.util.find_spec('numpy'))"
    assert world.run("alone", block + look).log() == "gold None\n"
    world.close()


@pytest.mark.slow
def test_environment_without_uv_fails_with_a_message(tmp_path):
    from batchai_magics.cell import python_env

    words = [sys.executable, "-S", "-E", python_env.__file__, str(tmp_path / "env"), "isolated", ""]
    done = subprocess.run(words, capture_output=True, text=True, env={"PATH": "/nowhere"}, check=False)
    assert done.returncode == 1
    assert "uv makes the environment, and this machine has none" in done.stderr


def test_names_are_right_though_a_later_python_has_another_form_of_bytecode(monkeypatch):
    body = (
        "import os\ndef f(x):\n    global made\n    made = x + lr\n    return os.path, steps\nloss = f(batch)"
    )
    script = CompiledScript.of(body)
    monkeypatch.setattr(sys, "version_info", (3, 14, 0))
    monkeypatch.setattr(cell_script, "opmap", {})
    assert script.read_names({"lr", "steps", "batch", "x", "other"}) == {"lr", "steps", "batch"}
    assert script.bound_names == {"os", "f", "made", "loss"}
