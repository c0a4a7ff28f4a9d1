"""What to write for names and modules that a script lacks where it runs."""

import collections
from pathlib import Path

import pytest

from batchai_magics.cell.notebook_variables import local_files, local_modules, missing_in
from batchai_magics.cell.sweep_request import parse_sweep
from tests.cell.parsed_cells import SETTINGS, Notebook, cell


def of_notebook():
    """A function whose module is not that of a notebook."""


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("NameError: name 'x' is not defined", "name x"),
        ("NameError: name 'x' is not defined. Did you mean: 'y'?", "name x"),
        ("ModuleNotFoundError: No module named 'a.b'", "module a"),
        ("ModuleNotFoundError: No module named 'helper'; 'helper' is not a package", "module helper"),
        ("FileNotFoundError: [Errno 2] No such file or directory: './data/x.csv'", "file data/x.csv"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/x.csv'", ""),
        ("UnboundLocalError: cannot access local variable 'x'", ""),
    ],
)
def test_the_last_line_of_a_traceback_says_what_is_missing(line, missing):
    assert missing_in(line) == missing


def test_names_that_only_the_notebook_has_are_reported_before_submission():
    names = {"lr": 0.1, "co": collections, "of_notebook": of_notebook, "used": 1, "unread": 2}
    request = cell("r --use used", "print(lr, co, of_notebook, used)\ndisplay(1)", names=names)
    remedies = dict(request.source.remedies)
    assert remedies.pop("name lr").endswith("add --use lr")
    assert remedies.pop("name co").endswith("write `import collections as co` in it")
    assert "from tests.cell.test_remedies import of_notebook" in remedies.pop("name of_notebook")
    assert "print() it" in remedies.pop("name display")
    assert remedies == {}
    assert request.notes == tuple(request.source.remedies.values())


def test_option_use_is_not_suggested_for_a_definition_of_the_notebook():
    net = type("Net", (), {"__module__": "__main__"})
    (note,) = cell("r", "Net()", names={"Net": net}).notes
    assert note == "the notebook has Net, and the cell does not: write its definition there, or use run(Net)"


def test_option_use_is_not_suggested_for_a_value_that_it_refuses():
    config = type("Config", (), {"__module__": "__main__"})()
    notes = cell("r", "print(config, api_key)", names={"config": config, "api_key": "x"}).notes
    assert notes == (
        "the notebook has config, and the cell does not: write its class Config there, and make it there",
        "the notebook has api_key, and the cell does not: put it into an environment variable,"
        " and name that with --secret",
    )


def test_a_parameter_of_a_sweep_is_in_the_environment():
    notebook = Notebook(names={"lr": 3})
    sweep = parse_sweep("r --sweep lr=1,2", "print(lr)", settings=SETTINGS, notebook=notebook)
    assert sweep.first.notes == (
        "lr is a parameter of the sweep: the script finds it as os.environ['PARAM_LR']",
    )


def test_the_users_own_modules_are_named_by_where_they_are(tmp_path):
    for name in ("helper.py", "pkg/__init__.py", "data/x.csv", "not-one.py", "lib/inner.py", "sent.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    remedies = local_modules(tmp_path, "r.py", ["r.py", "sent.py", "lib/inner.py", "lib/deep/__init__.py"])
    assert remedies == {
        "module helper": "helper.py is yours and was not sent: add --upload helper.py",
        "module pkg": "pkg is yours and was not sent: add --upload pkg",
        "module inner": "lib/inner.py is sent, and Python finds it with --env PYTHONPATH=lib",
        "module deep": "lib/deep/__init__.py is sent, and Python finds it with --env PYTHONPATH=lib",
    }


def test_uploading_is_suggested_for_files_that_the_script_names_and_lacks(tmp_path):
    for name in ("data/x.csv", "my w.pt", "unnamed.txt", "part/sent.csv", "part/other.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    script = "open(f'data/{name}.csv'); open('my w.pt'); open('part/other.csv'); open('empty/x', 'w')"
    assert local_files(tmp_path, [script], ["r.py", "part/sent.csv"]) == {
        "file data": "data is yours and was not sent: add --upload data",
        "file my w.pt": "my w.pt is yours and was not sent: add --upload 'my w.pt'",
    }


def test_a_folder_not_for_this_user_is_not_advised_and_one_that_no_script_names_is_not_listed(
    tmp_path, monkeypatch
):
    def listed(path, iterdir=Path.iterdir):
        assert path.name != "unnamed", "it is listed"
        if path.name == "locked":
            raise PermissionError(path)
        return iterdir(path)

    for name in ("locked", "unnamed"):
        (tmp_path / name).mkdir()
    (tmp_path / "x.csv").touch()
    monkeypatch.setattr(Path, "iterdir", listed)
    assert [*local_files(tmp_path, ["open('locked/a'); open('x.csv')"], ["r.py"])] == ["file x.csv"]


def test_modules_above_the_script_of_a_project_are_sent_and_not_found(tmp_path):
    remedies = local_modules(tmp_path, "scripts/train.py", ["scripts/train.py", "scripts/near.py", "top.py"])
    assert remedies == {"module top": "top.py is sent, and Python finds it with --env PYTHONPATH=."}
