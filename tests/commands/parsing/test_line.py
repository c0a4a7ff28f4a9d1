import pytest

from batchai_magics.commands.parsing.line import words
from batchai_magics.errors import UsageError


def test_quotes_keep_words_together():
    assert words("job create -f 'my job.json'", {}) == ["job", "create", "-f", "my job.json"]


def test_a_variable_stands_for_its_value_and_stays_one_word():
    assert words("job show -n {name}", {"name": "a b"}) == ["job", "show", "-n", "a b"]


def test_an_unknown_variable_is_an_error():
    with pytest.raises(UsageError, match="no variable nmae"):
        words("job show -n {nmae}", {"name": "x"})


@pytest.mark.parametrize("query", ["--query '[].{Name:name}'", "--query='[].{Name:name}'"])
def test_the_braces_of_a_query_are_kept(query):
    assert words(f"job list {query}", {"name": "x"})[-1].endswith("[].{Name:name}")


def test_an_open_quote_is_an_error():
    with pytest.raises(UsageError, match="close the quotes"):
        words("job show -n 'x", {})
