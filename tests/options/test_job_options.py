import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.cell.cell_options import read_options
from batchai_magics.errors import UsageError
from batchai_magics.options.option_parsing import expand, relative_path, split_line


def values(*words, env=None):
    return read_options(words, env or {})


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("30m", "PT30M"),
        ("2h", "PT2H"),
        ("1d", "P1D"),
        ("45s", "PT45S"),
        ("1d12h30m", "P1DT12H30M"),
        ("2H", "PT2H"),
        ("PT2H", "PT2H"),
        ("7.00:00:00", "7.00:00:00"),
    ],
)
def test_times_are_short_or_as_the_api_has_them(text, time):
    assert values("--max-time", text).properties["constraints.maxWallClockTime"] == time


@pytest.mark.parametrize("text", ["30", "", "soon", "0m", "-5m", "1w2d", "m30"])
def test_impossible_times_are_refused(text):
    with pytest.raises(UsageError, match="--max-time"):
        values("--max-time", text)


@pytest.mark.parametrize("option", ["--nodes", "--processes"])
@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "", "٣", "9999999999"])
def test_impossible_counts_are_refused(option, text):
    with pytest.raises(UsageError, match=f"{option} .*: expected a whole number of at least 1"):
        values(option, text)


@pytest.mark.parametrize("words", [("--env", "=1"), ("--input", "A"), ("--metric", "a"), ("--output", "=x")])
def test_pairs_with_an_empty_part_are_refused(words):
    with pytest.raises(UsageError, match=f"{words[0]} .*: expected"):
        values(*words)


def test_variable_given_twice_is_refused():
    with pytest.raises(UsageError, match="--env: A is given twice"):
        values("--env", "A=1", "--env", "A=2")


def test_output_without_a_suffix_is_accepted():
    assert values("--output", "A", "--output", "B=x").outputs == {"A": "", "B": "x"}


def test_a_metric_without_a_group_is_refused_before_anything_runs():
    with pytest.raises(UsageError, match=r"--metric loss: .+ has no group"):
        values("--metric", r"loss=loss: \d+")


def test_a_secret_is_taken_from_the_environment_and_not_shown():
    options = values("--secret", "TOKEN", env={"TOKEN": "t0p"})
    assert options.secrets == {"TOKEN": "t0p"}
    assert "t0p" not in repr(options)


def test_a_secret_on_the_line_is_refused_without_repeating_it():
    with pytest.raises(UsageError) as caught:
        values("--secret", "TOKEN=t0p", env={"TOKEN": "x"})
    assert "does not belong on the line" in str(caught.value)
    assert "t0p" not in str(caught.value)


def test_a_secret_that_is_not_there_is_named():
    with pytest.raises(UsageError, match="--secret TOKEN: there is no environment variable") as caught:
        values("--secret", "TOKEN")
    assert "in a shell: export TOKEN=…, or in a notebook: import os, getpass" in str(caught.value)


def test_a_broken_pattern_is_named():
    with pytest.raises(UsageError, match=r"--metric loss: .*missing \)"):
        values("--metric", "loss=(")


def test_a_pattern_that_could_not_be_searched_is_refused_before_anything_is_submitted():
    with pytest.raises(UsageError, match=r"--metric loss: .*invalid perl operator"):
        values("--metric", "loss=(?<=loss: )(.*)")


@pytest.mark.parametrize("name", ["1a", "a b", "for", "", "a.b"])
def test_a_variable_needs_a_python_name(name):
    with pytest.raises(UsageError, match="not a name for a Python variable"):
        values("--var", name)


@pytest.mark.parametrize(
    ("options", "preflight"),
    [("", None), ("--check", "stop"), ("--exclude-bad", "exclude"), ("--check --exclude-bad", "exclude")],
)
def test_excluding_bad_nodes_implies_the_check(options: str, preflight: str | None) -> None:
    assert values(*options.split()).properties.get("batchaiPreflight") == preflight


def test_variable_without_a_value_is_inherited():
    options = values("--env", "DATA_DIR", "--env", "LR=0.1", env={"DATA_DIR": "/data"})
    assert options.env == {"DATA_DIR": "/data", "LR": "0.1"}


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ({}, "--env MY_TOKEN: there is no environment variable of that name"),
        ({"MY_TOKEN": "x"}, "--env MY_TOKEN: it looks like a secret, and would be kept with the job"),
    ],
)
def test_a_variable_without_a_value_must_be_there_and_no_secret(env, text):
    with pytest.raises(UsageError, match=text) as caught:
        values("--env", "MY_TOKEN", env=env)
    assert ("--secret MY_TOKEN" in caught.value.hint) is bool(env)


def test_quotes_hold_words_together():
    assert split_line("""a --args "--x 'y z'" b\\ c ''""", {}) == ["a", "--args", "--x 'y z'", "b c", ""]


@given(st.text())
def test_value_is_always_a_single_word_of_the_line(value):
    assert split_line("a {v} b", {"v": value}) == ["a", value, "b"]


@pytest.mark.parametrize(("value", "text"), [("x", "x"), (3, "3"), (0.5, "0.5"), (True, "True")])
def test_text_and_numbers_are_put_in(value, text):
    assert expand("<{v}>", {"v": value}) == f"<{text}>"


def test_doubled_braces_are_braces():
    assert expand("{{v}} {{{v}}}", {"v": 1}) == "{v} {1}"


def test_what_a_value_holds_is_not_expanded_again():
    assert expand("{a}", {"a": "{b}", "b": 1}) == "{b}"


@pytest.mark.parametrize("value", [[1], None, {"a": 1}, b"x", object])
def test_values_of_other_types_are_refused_on_a_line(value):
    with pytest.raises(UsageError, match=r"\{v\} on the line is of type"):
        expand("{v}", {"v": value})


@pytest.mark.parametrize("word", ["{", "}", "{}", "{a.b}", "{a[0]}", "{ a }", "{a!r}", "{a:>3}", '{"a": 1}'])
def test_braces_around_anything_but_a_name_are_refused(word):
    with pytest.raises(UsageError, match="is not a variable name"):
        expand(word, {"a": 1})


def test_an_unknown_name_is_named_with_a_guess():
    with pytest.raises(UsageError, match=r'there is no variable lrate\nDid you mean "l_rate"\?'):
        expand("{lrate}", {"l_rate": 1})


def test_an_open_quote_is_refused():
    with pytest.raises(UsageError, match="cannot be split into words"):
        split_line('a "b', {})


@pytest.mark.parametrize("query", ["--query '[].{Name:name}'", "--query='[].{Name:name}'"])
def test_the_braces_of_a_query_are_kept(query):
    words = split_line(f"job list {query} {{v}}", {"v": "x"}, literal=("--query",))
    assert words[-2].endswith("[].{Name:name}")
    assert words[-1] == "x"


@pytest.mark.parametrize(
    ("path", "clean"),
    [(".", ""), ("", ""), ("./a//b/", "a/b"), ("a/./b", "a/b"), ("..a/b..", "..a/b.."), ("a\\b", "a/b")],
)
def test_a_path_below_is_cleaned(path, clean):
    assert relative_path(path, "--path") == clean


@pytest.mark.parametrize("path", ["..", "a/../b", "/", "/a", "C:/a", "c:a", "\\a", "a\\..\\b", "a\0b"])
def test_a_path_that_leads_out_is_refused(path):
    with pytest.raises(UsageError, match="is outside the output directory"):
        relative_path(path, "--path")
