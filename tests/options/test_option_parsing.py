import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.errors import UsageError
from batchai_magics.options.option_parsing import expand, split_line


def test_quotes_hold_words_together():
    assert split_line("""a --args "--x 'y z'" b\\ c ''""", {}) == ["a", "--args", "--x 'y z'", "b c", ""]


@given(st.text())
def test_a_value_never_becomes_more_than_one_word(value):
    assert split_line("a {v} b", {"v": value}) == ["a", value, "b"]


@pytest.mark.parametrize(("value", "text"), [("x", "x"), (3, "3"), (0.5, "0.5"), (True, "True")])
def test_text_and_numbers_are_put_in(value, text):
    assert expand("<{v}>", {"v": value}) == f"<{text}>"


def test_doubled_braces_are_braces():
    assert expand("{{v}} {{{v}}}", {"v": 1}) == "{v} {1}"


def test_what_a_value_holds_is_not_expanded_again():
    assert expand("{a}", {"a": "{b}", "b": 1}) == "{b}"


@pytest.mark.parametrize("value", [[1], None, {"a": 1}, b"x", object])
def test_other_values_are_refused(value):
    with pytest.raises(UsageError, match=r"\{v\} on the line is of type"):
        expand("{v}", {"v": value})


@pytest.mark.parametrize("word", ["{", "}", "{}", "{a.b}", "{a[0]}", "{ a }", "{a!r}", "{a:>3}", '{"a": 1}'])
def test_only_names_stand_in_braces(word):
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
