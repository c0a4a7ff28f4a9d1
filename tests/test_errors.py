import inspect

import pytest

from batchai_magics import errors
from batchai_magics.errors import (
    BatchAIError,
    JobFailedError,
    NotFoundError,
    Problem,
    ScriptError,
    ServiceError,
    SpecError,
    UsageError,
    did_you_mean,
)


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (UsageError("no name", hint="give one"), "UsageError: no name\ngive one"),
        (UsageError("no name"), "UsageError: no name"),
        (
            NotFoundError("no job", code="JobNotFound", hint="list them"),
            "NotFoundError: (JobNotFound) no job\nlist them",
        ),
        (ServiceError("no"), "ServiceError: no"),
        (ScriptError("bad", line=3), "ScriptError: bad"),
    ],
)
def test_a_notebook_shows_our_lines_only(error, lines):
    assert error._render_traceback_() == [lines]


def test_no_error_steers_the_terminal_that_shows_it():
    error = NotFoundError("no \x1b]52;c;aGk=\x07 \u202e\n\tyet", code="X", hint="\udcff\x9b\r")
    assert str(error) == "(X) no \\x1b]52;c;aGk=\\x07 \\u202e\n\tyet\n\\udcff\\x9b\\r"
    assert error._render_traceback_() == [f"NotFoundError: {error}"]


def test_all_problems_are_listed_and_counted():
    error = SpecError([Problem("a.b", "is wrong", "mend it"), Problem("", "is empty")], what="the file")
    assert str(error).splitlines() == [
        "the file has 2 problems:",
        "  a.b: is wrong (mend it)",
        "  is empty",
        "Nothing was written or submitted.",
    ]
    assert len(error.problems) == 2
    assert "has one problem" in str(SpecError([Problem("a", "is wrong")], what="the file"))


def test_the_tree_on_top_names_every_error():
    classes = [
        name for name, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, Exception)
    ]
    assert [name for name in classes if name not in (errors.__doc__ or "")] == []
    assert all(issubclass(getattr(errors, name), BatchAIError) for name in classes)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (NotFoundError("x"), 3),
        (ServiceError("x"), 1),
        (JobFailedError("x", exit_code=7), 7),
        (JobFailedError("x"), 255),
    ],
)
def test_the_shell_gets_an_exit_code(error, code):
    assert error.exit_code == code


@pytest.mark.parametrize(
    ("word", "guess"),
    [("nodeCuont", 'Did you mean "nodeCount"?'), ("NODECOUNT", 'Did you mean "nodeCount"?'), ("zebra", "")],
)
def test_a_misspelt_word_gets_the_nearest_one(word, guess):
    assert did_you_mean(word, ["nodeCount", "cluster"]) == guess
