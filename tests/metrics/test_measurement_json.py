import dataclasses
import enum
import json

import pytest

from batchai_magics.metrics.measurement import json_value


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Pair:
    speed: float
    names: tuple[str, ...]


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (0.12345678901234567, 0.12345678901234567),  # every digit: what is read again is the same number
        (1 / 3, 1 / 3),
        (1e300 * 10, 1e301),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (None, None),
        (7, 7),
        (True, True),
        (Color.RED, "red"),
        ({0: Pair(float("nan"), ("a",))}, {"0": {"speed": "NaN", "names": ["a"]}}),
    ],
)
def test_a_value_is_as_json_has_it(value, plain):
    assert json_value(value) == plain
    json.dumps(json_value(value), allow_nan=False)
