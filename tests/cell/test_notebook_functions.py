"""Functions of a notebook are sent with the classes and functions of other cells that they use."""

import pickle
import sys
import types

import pytest
from IPython.core.interactiveshell import InteractiveShell

from batchai_magics.cell.function_script import function_script
from batchai_magics.errors import UsageError

IMPORTS = """
import collections, enum, functools, threading, typing
from dataclasses import dataclass, field
"""
DATA = """
class Color(enum.Enum):
    RED = 1
    BLUE = 2

@dataclass
class Config:
    lr: float = 0.1
    color: Color = Color.RED

CONFIG = Config(0.5, Color.BLUE)
Pair = collections.namedtuple("Pair", "a b")
T = typing.TypeVar("T")
"""
HELPERS = """
def logged(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)
    return inner

@functools.lru_cache(maxsize=None)
def half(x): return x / 2

@logged
def double(x): return 2 * x

def power(x, n): return x ** n

square = lambda x: x * x
cube = functools.partial(power, n=3)
alias = power
"""


@pytest.fixture
def notebook(monkeypatch, tmp_path):
    """Runs cells in a notebook of its own, and gives its variables."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    shell = InteractiveShell()
    shell.history_manager.enabled = False

    def run(*cells):
        for cell in (IMPORTS, *cells):
            shell.run_cell(cell, store_history=True).raise_error()
        return shell.user_ns

    yield run
    shell.history_manager.end_session()


def result_of(function, *args, **kwargs):
    """What a function returns where nothing of the notebook is there."""
    script = function_script(function, args, kwargs)
    variables = pickle.loads(pickle.dumps(dict(script.variables)))
    with pytest.MonkeyPatch.context() as patch:
        main = types.ModuleType("__main__")
        patch.setitem(sys.modules, "__main__", main)
        main.__dict__.update(variables)
        exec(compile(script.text, "<script>", "exec"), main.__dict__)
    return main.result


def test_classes_are_sent_with_and_without_methods(notebook):
    names = notebook(
        "class Net:\n    def __init__(self, n): self.n = n\n    def out(self): return self.n * 2",
        "class Empty: pass",
        "class Deep(Net):\n    scale = 3",
        "def train(n): return [Net(n).out(), Deep(n).out(), Deep.scale, Empty.__name__]",
    )
    assert result_of(names["train"], 21) == [42, 42, 3, "Empty"]


def test_the_newest_definition_of_a_name_is_sent(notebook):
    first = "class Net:\n    size = 1"
    names = notebook(first, "class Net:\n    size = 2", "def train(): return Net.size", first, "Net.size")
    assert result_of(names["train"]) == 1
    assert result_of(notebook("class Net:\n    size = 2")["train"]) == 2


def test_alias_of_a_redefined_class_keeps_the_old_definition(notebook):
    old = "class Net:\n    def out(self): return 'old'"
    new = "class Net(Old):\n    def out(self): return super().out() + ', new'"
    names = notebook(old, "Old = Net", new, "def train(): return [Old().out(), Net().out()]")
    assert result_of(names["train"]) == ["old", "old, new"]


def test_decorated_and_assigned_helpers_are_sent(notebook):
    code = "@logged\ndef train(): return [half(4), double(3), square(3), cube(2), alias(2, 2)]"
    assert result_of(notebook(HELPERS, code)["train"]) == [2.0, 6, 9, 8, 4]


def test_dataclasses_enums_and_their_instances_are_sent(notebook):
    code = (
        "def train(config, color=None):\n"
        "    def same(x: T) -> T: return x\n"
        "    return [config.lr, config.color is Color.RED, color is Color.BLUE, CONFIG.lr, Pair(1, 2).b]"
    )
    names = notebook(DATA, code)
    read = result_of(names["train"], names["Config"](), color=names["Color"].BLUE)
    assert read == [0.1, True, True, 0.5, 2]


def test_an_object_that_the_methods_of_its_class_use_is_sent(notebook):
    code = "class Net:\n    def of(self): return SHARED.n\nSHARED = Net()\nSHARED.n = 5\n"
    assert result_of(notebook(code, "def train(): return Net().of()")["train"]) == 5


def test_cells_below_a_magic_are_searched(notebook):
    names = notebook("%%capture out\nclass Hidden:\n    size = 7", "def train(): return Hidden.size")
    assert result_of(names["train"]) == 7


def test_a_name_that_a_helper_binds_is_still_sent_where_another_reads_it(notebook):
    code = "n = 3\nclass Net:\n    def add(self, n): return n\n    def read(self): return n"
    assert result_of(notebook(code, "def train(): return Net().read()")["train"]) == 3


def test_variable_that_shadows_a_builtin_is_sent_unless_ipython_defines_it(notebook):
    names = notebook("dir = 'data'", "def train(): return dir, open.__module__, len('ab')")
    assert result_of(names["train"]) == ("data", open.__module__, 2)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            "lock = threading.Lock()\ndef train(): return lock",
            r"lock, a lock, cannot be sent \(train uses it\)",
        ),
        (
            "exec('class Made: pass')\ndef train(): return Made",
            r"source of Made is not known \(train uses it\)",
        ),
        (
            "@dataclass\nclass Login:\n    password: str = ''\nLOGIN = Login('x')\ndef train(): return LOGIN",
            "LOGIN looks like it holds a secret",
        ),
    ],
)
def test_error_names_the_object_that_cannot_be_sent_and_a_remedy(notebook, cell, message):
    with pytest.raises(UsageError, match=message) as caught:
        function_script(notebook(cell)["train"])
    assert caught.value.hint


def test_an_argument_that_cannot_be_sent_is_named(notebook):
    names = notebook("def train(a, b): return b\nlock = threading.Lock()")
    with pytest.raises(UsageError, match=r"args\[1\], a lock, cannot be sent"):
        function_script(names["train"], (1, names["lock"]))
    with pytest.raises(UsageError, match="run: b, a lock, cannot be sent"):
        function_script(names["train"], (1,), {"b": names["lock"]})
