import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.errors import UsageError
from batchai_magics.metrics import read_metrics
from batchai_magics.options.regular_expressions import compile_expression, matching_lines

ATOMS = st.sampled_from(
    ["a", "b", "[ab]", "[^a]", ".", r"\w", r"\b", r"\B", "^", "$", r"\d", "", "B", r"\A", r"\."]
)


def _larger(inner):
    groups = inner.map(lambda text: f"(?:{text})")
    return st.one_of(
        st.builds(str.__add__, groups, groups),
        st.builds(lambda one, other: f"(?:{one}|{other})", groups, groups),
        st.builds(str.__add__, groups, st.sampled_from(["?", "*", "+", "{0,2}", "{2}"])),
    )


sources = st.recursive(ATOMS, _larger, max_leaves=6)
lines = st.text("ab B\t-1.é", min_size=1, max_size=8).map(str.encode)


def compiled(source, **options):
    return compile_expression(source, option="--metric loss", **options)


@given(sources, lines, st.booleans())
def test_a_line_gives_the_places_that_pythons_own_search_gives(source, line, ignores_case):
    python = re.compile(source.encode(), re.IGNORECASE if ignores_case else 0)
    match = compiled(source, ignores_case=ignores_case).search(line)
    expected = python.search(line)
    assert (match and match.start()) == (expected and expected.start())


@given(sources, st.lists(lines, min_size=1, max_size=5))
def test_search_finds_the_lines_that_contain_the_text(source, texts):
    expression = compiled(source)
    data = b"".join(line + b"\n" for line in texts)
    starts = [sum(len(line) + 1 for line in texts[:place]) for place in range(len(texts))]
    assert list(matching_lines(expression, data)) == [
        start for start, line in zip(starts, texts, strict=True) if expression.search(line)
    ]


@pytest.mark.parametrize("source", [r"(a+)+$", r"^(a|aa)*$", r"(\w+\s?)+:$", r".*a.*a.*b", r"(a?){30}a{30}$"])
def test_search_with_nested_repetitions_ends(source):
    line = b"a" * 29 + b"a" * 100_000 + b"!"
    assert compiled(source).search(line) is None


def test_a_metric_of_repetitions_within_repetitions_ends():
    log = b"loss 1 " + b"a" * 60_000 + b"!\nloss 2 aaa\n"
    records = read_metrics(log, patterns={"loss": r"loss (\d) (a+)+$"}).records
    assert [record.value for record in records] == [2]


@pytest.mark.parametrize(
    "source", [r"(?=x)loss", r"(?<!x)loss", r"(loss)\1", r"(?P<a>x)(?P=a)", "a{1001}", "(?>x)", "("]
)
def test_what_cannot_be_searched_in_linear_time_is_refused_with_the_option_and_the_fix(source):
    with pytest.raises(UsageError) as caught:
        compiled(source)
    assert "--metric loss: " in str(caught.value)
    assert repr(source) in str(caught.value)
    assert "without look-around" in caught.value.hint


def test_half_a_character_is_refused():
    with pytest.raises(UsageError, match=r"--metric loss: .*surrogates not allowed"):
        compiled("\ud800")


def test_a_refusal_writes_nothing_beside_the_error(capfd):
    with pytest.raises(UsageError):
        compiled("(")
    assert capfd.readouterr() == ("", "")


def test_broken_text_is_passed_over_byte_by_byte():
    assert compiled("loss.*(1)").search(b"loss \xff\xfe\xc3( 1")[1] == b"1"


@pytest.mark.parametrize("source", [r"\A\d\Z", r"\A\d\z", r"^\d$"])
def test_anchors_of_the_text_match_at_the_ends_of_lines(source):
    assert list(matching_lines(compiled(source), b"1\n22\n3\n4 ")) == [0, 5]


def test_an_escaped_backslash_before_a_letter_is_a_backslash():
    assert compiled(r"a\\Zb").search(rb"a\Zb")
