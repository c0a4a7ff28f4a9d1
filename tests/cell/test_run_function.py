"""Code of a function's script names the files and lines of the user, not those of the script."""

import inspect
import linecache
import traceback

import pytest

from batchai_magics.cell.function_script import function_script
from batchai_magics.cell.run_function import compile_placed
from tests.cell.test_notebook_functions import notebook  # noqa: F401  # a fixture

CELLS = (
    "import functools\n\ndef load(batch):\n    return batch['labels']\n",
    "%%time\nclass Net:\n    def forward(self):\n        return load({})\n",
    "@functools.lru_cache\ndef train():\n    return Net().forward()\n",
)


@pytest.fixture
def main(notebook, monkeypatch):  # noqa: F811
    """The names of the script of the notebook's `train`, compiled as on a node."""
    names = notebook(*CELLS)
    script = function_script(names["train"])
    monkeypatch.setattr(linecache, "cache", {})
    found = dict(script.variables)
    with pytest.raises(KeyError) as caught:
        exec(compile_placed(script.text.encode(), "train_call.py", "exec", dont_inherit=True), found)
    return found, caught.value


def test_a_traceback_names_the_cells_and_shows_their_lines(main):
    frames = traceback.extract_tb(main[1].__traceback__)[2:]
    places = [(frame.filename, frame.lineno, frame.name, frame.line) for frame in frames]
    assert places == [
        ("In[4]", 3, "train", "return Net().forward()"),
        ("In[3]", 4, "forward", "return load({})"),
        ("In[2]", 4, "load", "return batch['labels']"),
    ]


def test_the_source_of_a_function_and_a_class_is_found(main):
    names = main[0]
    assert inspect.getsource(names["load"]) == "def load(batch):\n    return batch['labels']\n"
    assert inspect.getsource(names["Net"].forward) == "    def forward(self):\n        return load({})\n"


def test_code_without_a_file_is_shown_as_the_scripts():
    code = compile_placed(b"def f(): pass\n", "train_call.py", "exec")
    names = {}
    exec(code, names)
    assert names["f"].__code__.co_filename == "train_call.py"
    assert "train_call.py" not in linecache.cache
