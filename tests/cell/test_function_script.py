from __future__ import annotations

import functools
import json as js
from collections import Counter
from math import sqrt

import pytest

from batchai_magics.cell.function_script import function_script
from batchai_magics.errors import UsageError

SCALE = 3


class Box:
    def __init__(self, value):
        self.value = value


def helper(value: Unknown) -> Box:  # noqa: F821  # an annotation that nobody evaluates
    return Box(value * SCALE) if value else helper(1)


def cached(function):
    return functools.wraps(function)(lambda *args: function(*args))


@cached
def train(rate, *, steps=2):
    counts = Counter(str(step) for step in range(steps))
    return js.dumps([helper(rate).value, sqrt(16), dict(counts)])


def result_of(script):
    names = dict(script.variables)
    exec(compile(script.text, "<script>", "exec"), names)
    return names["result"]


def test_script_contains_all_that_a_function_uses_of_its_module():
    assert result_of(function_script(helper, (2,))).value == 6
    assert result_of(function_script(train, (2,))) == '[6, 4.0, {"0": 1, "1": 1}]'


def test_global_values_of_the_module_are_sent_as_variables():
    assert function_script(helper, (2,)).variables == {"SCALE": 3, "_args": (2,), "_kwargs": {}}


def test_a_lambda_a_method_and_a_closure_are_refused_with_their_reason():
    def inner():
        return factor

    factor = 2
    for function, reason in (
        (lambda: 1, "lambda"),
        (Box(1).__init__, "method"),
        (print, "builtin"),
        (inner, "uses factor of the function around it"),
    ):
        with pytest.raises(UsageError, match=reason):
            function_script(function)


def test_a_function_without_a_source_is_refused():
    names = {"__name__": __name__}
    exec("def made(): return 1", names)
    with pytest.raises(UsageError, match="source of made is not known"):
        function_script(names["made"])
