"""What of a notebook is sent as the script of a job, and its parameters."""

import json
import sys

import pytest

from batchai_magics.cell.notebook_script import (
    check_modules,
    checked_parameter,
    code_of,
    parameter_notes,
    parameter_words,
    sent_notebook,
)
from batchai_magics.errors import UsageError


def code(source, **fields):
    return {
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
        **fields,
    }


def document(*cells, **fields):
    return json.dumps(
        {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells), **fields}
    ).encode()


def test_outputs_counts_and_metadata_do_not_change_the_notebook_that_is_sent():
    plain = document(code("x = 1"), {"cell_type": "markdown", "source": ["# a\n", "b"], "metadata": {}})
    executed = document(
        code(["x = 1"], id="abc", outputs=[{"output_type": "stream", "text": "1"}], execution_count=7),
        {"cell_type": "markdown", "source": "# a\nb", "metadata": {"collapsed": True}},
        metadata={"kernelspec": {"name": "conda-env", "language": "python"}},
    )
    assert sent_notebook(plain, "a.ipynb") == sent_notebook(executed, "a.ipynb")
    assert sent_notebook(document(code("x = 2")), "a.ipynb") != sent_notebook(plain, "a.ipynb")


def test_tags_are_sent():
    sent = json.loads(sent_notebook(document(code("x = 1", metadata={"tags": ["parameters", 3]})), "a.ipynb"))
    assert sent["cells"][0]["metadata"] == {"tags": ["parameters"]}


def test_code_has_cell_numbers_that_skip_empty_cells():
    cells = [code("x = 1"), code(""), {"cell_type": "markdown", "source": "text"}, code("y = 2")]
    assert code_of(sent_notebook(document(*cells), "a.ipynb")) == "# cell 1\nx = 1\n\n# cell 2\ny = 2\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"print(1)", "a.ipynb is not a notebook"),
        (b"[1]", "a.ipynb is not a notebook"),
        (document(code("x"), nbformat=3), "has the format 3; a job runs format 4"),
        (document(code(3)), "has the format 4"),
        (document(code("x"), cells=None), "has the format 4"),
        (document({"cell_type": "markdown", "source": "text"}), "the notebook has no code"),
        (document(code(" ")), "the notebook has no code"),
        (
            document(code("x"), metadata={"kernelspec": {"name": "ir", "language": "R"}}),
            "is written in r; a job runs Python",
        ),
    ],
)
def test_notebook_that_cannot_run_is_refused(data, message):
    with pytest.raises(UsageError) as caught:
        sent_notebook(data, "a.ipynb")
    assert message in str(caught.value)


def test_values_from_python_keep_their_types():
    given = {
        "lr": 0.1,
        "name": "adam",
        "digits": "1",
        "quoted": '"x"',
        "flag": True,
        "none": None,
        "many": [1, "a"],
        "set": "{{}}",
    }
    assert list(parameter_words(given)) == [
        "lr=0.1",
        "name=adam",
        'digits="1"',
        'quoted="\\"x\\""',
        "flag=true",
        "none=null",
        'many=[1, "a"]',
        "set={{}}",
    ]


@pytest.mark.parametrize("word", ["lr", "--lr", "1x=2", "=3", "a b=1", "lambda=1"])
def test_a_parameter_without_a_name_is_refused(word):
    with pytest.raises(UsageError, match="a notebook takes parameters, as NAME=VALUE"):
        checked_parameter(word)


@pytest.mark.parametrize(
    ("source", "tags", "told"),
    [
        ("lr = 0.5", [], True),
        ("lr: float = 0.5", [], True),
        ("if lr == 0.5: pass\nprint(lr=1)", [], False),
        ("other_lr = lr", [], False),
        ("lr = 0.5", ["parameters"], False),
    ],
)
def test_note_names_a_parameter_that_an_untagged_cell_overwrites(source, tags, told):
    data = sent_notebook(document(code(source, metadata={"tags": tags})), "a.ipynb")
    notes = list(parameter_notes(data, ["lr=0.1"]))
    assert [note[:25] for note in notes] == ["lr: a cell sets it again;"] * told


@pytest.mark.parametrize("tags", [[], ["parameters"]])
def test_note_names_a_parameter_that_no_cell_mentions(tags):
    data = sent_notebook(document(code("lr = 0.5", metadata={"tags": tags})), "a.ipynb")
    assert list(parameter_notes(data, ["lrr=0.1"])) == ['lrr: no cell mentions it. Did you mean "lr"?']


def test_parameter_that_is_not_json_is_refused_by_name():
    with pytest.raises(UsageError, match="parameters: model cannot be written as JSON"):
        list(parameter_words({"model": object()}))


def test_missing_packages_are_named_with_the_options_unless_the_python_is_another(monkeypatch):
    monkeypatch.setitem(sys.modules, "nbclient", None)  # as where it is not installed
    with pytest.raises(UsageError, match="has no nbclient") as caught:
        check_modules(["--nodes=2"], is_here=True)
    assert caught.value.hint == "Add --with ipykernel --with nbclient"
    check_modules(["--with=einops"], is_here=True)
    check_modules([], is_here=False)
