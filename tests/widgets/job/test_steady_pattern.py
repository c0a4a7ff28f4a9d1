import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.errors import UsageError
from batchai_magics.widgets.job.steady_pattern import SteadyPattern, is_risky

ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\w", r"\b", r"\B", "^", "$", r"\s", "", "B"])


def _larger(inner):
    groups = inner.map(lambda text: f"(?:{text})")
    return st.one_of(
        st.builds(str.__add__, groups, groups),
        st.builds(lambda one, other: f"(?:{one}|{other})", groups, groups),
        st.builds(str.__add__, groups, st.sampled_from(["?", "{0,2}", "{2}"])),
    )


@given(st.recursive(ATOMS, _larger, max_leaves=6), st.text("ab B\t-", max_size=8))
def test_it_finds_what_pythons_own_search_finds(source, line):
    found = any(
        re.compile(rf"(?:{source})(?=[\s\S]{{{rest}}}\Z)".encode(), re.IGNORECASE).match(line.encode(), start)
        for start in range(len(line))
        for rest in range(len(line) - start)  # what is left of the line: the match is not empty
    )
    assert SteadyPattern(source.encode()).is_in(line.encode()) == found


@pytest.mark.parametrize(
    ("source", "line", "is_there"),
    [
        (rb"(a+)+$", b"a" * 50 + b"b", False),
        (rb"(a+)+$", b"b" + b"a" * 50, True),
        (rb"(\w+\s?)+:$", b"word " * 30 + b":", True),
        (rb"(\w+\s?)+:$", b"word " * 30, False),
        (rb"^(?:\d+\.)+\d+\b", b"1.22.333 ok", True),
        (rb"^(?:\d+\.)+\d+\b", b" 1.22", False),
        (rb"(a|aa)*b", b"aAaB", True),
        (rb".*x.*y.*z", b"x" * 5000 + b"y" * 5000, False),
        (rb"(a*)*", b"bbb", False),
        (rb"(a?){30}a{30}$", b"a" * 29 + b"b", False),
    ],
)
def test_loops_within_loops_cost_no_more_than_others(source, line, is_there):
    assert is_risky(source)
    assert SteadyPattern(source).is_in(line) is is_there


@pytest.mark.parametrize(
    "source", [rb"step \d+", rb"loss: .*nan", rb"(error|bad)", rb"(ab?){2,3}", rb"a.*b.*c"]
)
def test_an_ordinary_expression_is_left_to_python(source):
    assert not is_risky(source)


@pytest.mark.parametrize("source", [rb"(a+)+\1", rb"(?:(?=a)a+)+", rb"(?:(?:a{99}){99}){99}"])
def test_what_is_not_regular_or_too_long_is_refused(source):
    with pytest.raises(UsageError, match="no valid expression"):
        SteadyPattern(source)
