import builtins
import pickle
import shlex
import sys

import pytest

from batchai_magics.cell import Notebook, parse
from batchai_magics.cell.cell_options import RUN_CELL
from batchai_magics.cell.cell_script import CompiledScript
from batchai_magics.cell.notebook_variables import names_of_notebook, variables_file
from batchai_magics.cell.run_cell import MOST_BYTES
from batchai_magics.cell.run_cell import VARIABLES as FILE
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError

SETTINGS = Settings(subscription="s", resource_group="g")


class OfNotebook:
    """What a class is that a cell defines."""


OfNotebook.__module__ = "__main__"


def refused(name, value):
    with pytest.raises(UsageError) as caught:
        variables_file([name], {name: value})
    return str(caught.value)


def free(script, among):
    remedies, _ = names_of_notebook(CompiledScript.of(script), dict.fromkeys(among), ())
    return [key.removeprefix("name ") for key in remedies]


def cell(line, body="print(lr)", **variables):
    return parse(line, body, settings=SETTINGS, notebook=Notebook(names=variables))


def test_variables_are_uploaded_beside_the_script():
    request = cell("r --use lr,sizes", lr=0.1, sizes=[1, 2])
    files = {path.rpartition("/")[2]: data for path, data in request.uploads.items()}
    assert set(files) == {"r.py", FILE, RUN_CELL}
    assert pickle.loads(files[FILE]) == {"lr": 0.1, "sizes": [1, 2]}
    assert files["r.py"] == b"print(lr)"
    settings = request.spec.settings
    assert settings.python_script_file_path == f"$AZ_BATCHAI_INPUT_SCRIPT/{RUN_CELL}"
    assert settings.command_line_args == "$AZ_BATCHAI_INPUT_SCRIPT/r.py"


def test_arguments_are_still_passed_to_the_script():
    request = cell("r --use lr --args '-v 1' --toolkit custom", lr=0.1)
    folder = "$AZ_BATCHAI_INPUT_SCRIPT"
    assert request.spec.settings.command_line == f"python {folder}/{RUN_CELL} {folder}/r.py -v 1"
    assert cell("r --use lr --args '-v 1'", lr=0.1).spec.settings.command_line_args == f"{folder}/r.py -v 1"


def test_different_variable_value_gives_a_different_job():
    assert cell("r --use lr", lr=0.1).spec == cell("r --use lr", lr=0.1).spec
    assert cell("r --use lr", lr=0.1).spec != cell("r --use lr", lr=0.2).spec


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "x"),
        ("auth_token", "x"),
        ("API_KEY", "x"),
        ("config", {"nested": [{"secret": "x"}]}),
        ("text", "ghp_0123456789abcdefghij"),
        ("pem", ["-----BEGIN RSA PRIVATE KEY-----"]),
    ],
)
def test_variable_that_looks_like_a_secret_is_refused_without_showing_it(name, value):
    told = refused(name, value)
    assert "looks like a secret" in told
    assert "--secret" in told
    assert "ghp_" not in told


@pytest.mark.parametrize("name", ["tokenizer", "max_tokens", "key", "keys", "secretary", "token_ids"])
def test_name_that_only_resembles_a_secret_is_accepted(name):
    assert FILE in variables_file([name], {name: [1, 2]})


def test_variable_that_cannot_be_sent_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "OfNotebook", OfNotebook, raising=False)
    assert "--use gen: a generator cannot be shipped: " in refused("gen", (i for i in ()))
    assert "a class or function of the notebook" in refused("net", [1, OfNotebook()])
    assert "there is no variable lrate" in _refused_line("r --use lrate", lr=1)


def _refused_line(line, **variables):
    with pytest.raises(UsageError) as caught:
        cell(line, **variables)
    return str(caught.value)


def test_oversized_data_is_refused_with_its_size_and_the_limit():
    told = refused("data", bytes(MOST_BYTES + 1))
    assert "--use: 16.0 MiB is too much; the limit is 16.0 MiB" in told
    assert "data alone has 16.0 MiB" in told


def test_script_needs_the_names_that_it_never_binds():
    script = "import os.path as p\nfrom a import b\ndef f(x):\n    y = x + z\n    return y\nprint(p, b, f, q)"
    assert free(script, ["x", "y", "z", "p", "b", "f", "q"]) == ["z", "q"]
    assert free(script, ["q", "os"]) == ["q"]


def test_a_name_is_free_where_it_is_read_even_if_another_function_binds_it():
    script = "def f(n): return n\ndef g(): return n\nclass C:\n    m = 1\n    def h(self): return m"
    assert free(script, {"n", "m", "self"}) == ["n", "m"]
    assert free("def f():\n    global n\n    n = 1\nf()\nprint(n, [k for k in n])", {"n", "k"}) == []


def test_name_with_a_large_index_is_found():
    many = "\n".join(f"n{number} = 1" for number in range(70_000))
    assert free(f"{many}\nx = y\ndef f(): return z", {"x", "y", "z", "n69999"}) == ["y", "z"]


def test_a_class_reads_only_what_its_body_does_not_bind():
    assert free("class C:\n    m = 1\n    k = m + n", {"m", "n", "k"}) == ["n"]
    script = CompiledScript.of("class C:\n    def f(self): return type(self).__name__")
    assert script.read_names({"__name__"}) == set()


def test_builtins_of_ipython_count_as_names_of_the_notebook(monkeypatch):
    monkeypatch.setattr(builtins, "display", print, raising=False)
    assert free("display(print)", {"display", "print"}) == ["display"]


def test_notes_name_unused_and_missing_variables():
    request = cell("r --use lr,other", "print(lr, epochs)", lr=1, other=2, epochs=3)
    assert request.notes == (
        "--use other: the cell does not read it",
        "the notebook has epochs, and the cell does not: add --use epochs",
    )


def test_a_template_is_filled_from_the_notebook():
    body = "lr = {lr}\nsizes = {{'a': 1}}\n"
    (script,) = cell("r --template", body, lr=0.1).uploads.values()
    assert script == b"lr = 0.1\nsizes = {'a': 1}\n"
    (plain,) = cell("r", body, lr=0.1).uploads.values()
    assert plain == body.encode()


def test_error_about_an_unknown_name_in_a_template_refers_to_the_cell():
    with pytest.raises(UsageError, match=r"\{rate\} in the cell: there is no variable rate"):
        cell("r --template", "print({rate})", lr=0.1)


def test_variables_are_refused_with_a_description():
    assert "--use does not go with --spec or --file" in _refused_line("r --spec --use lr", lr=1)


def test_the_values_of_a_template_are_arguments_of_a_description():
    body = """
    properties:
      nodeCount: {n}
      stdOutErrPathPrefix: $AZ_BATCHAI_MOUNT_ROOT/autoafs
      jobPreparation: {{commandLine: "pip install {x}"}}
      customToolkitSettings: {{commandLine: "echo '{x}' --lr {lr}"}}
      environmentVariables: [{{name: A, value: "{x}"}}]
    """
    wire = cell("r --spec --template", body, n=2, x="a; touch 'X'", lr=0.1).spec.to_wire()["properties"]
    assert wire["nodeCount"] == 2
    assert shlex.split(wire["jobPreparation"]["commandLine"]) == ["pip", "install", "a; touch 'X'"]
    command = wire["customToolkitSettings"]["commandLine"]
    assert shlex.split(command) == ["echo", "a; touch 'X'", "--lr", "0.1"]
    assert wire["environmentVariables"] == [{"name": "A", "value": "a; touch 'X'"}]
