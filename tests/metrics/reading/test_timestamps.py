"""Texts and numbers that tell a time."""

from datetime import datetime, timezone

import pytest

from batchai_magics.metrics.reading.timestamps import (
    DIGITS_TO_ZERO,
    Timestamp,
    json_timestamp,
    parse_timestamp,
    timestamp_slices,
)

T = datetime(2019, 3, 2, 10, 25, 35, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (T, T), (T * 1e3, T), (T * 1e6, T), (T * 1e9, T), (int(T), T), (f"{T}", T), (f"{T * 1000:.0f}", T),
        ("2019-03-02T10:25:35+00:00", T), (12.3, None), ("12.3", None), (-T, None), (True, None),
        (None, None), ("yesterday at about a quarter past ten", None), (float("nan"), None),
        ([T], None), (10**400, None), (5e10, None), (1e8, 1e8), (1e11, 1e8), (9e9, None), (8.9e9, 8.9e9),
    ],
)  # fmt: skip
def test_a_moment_is_seconds_since_1970_or_a_part_of_them(value, seconds):
    assert json_timestamp(value) == (None if seconds is None else pytest.approx(Timestamp(seconds)))


def test_a_moment_without_a_zone_is_the_shortest_that_is_read():
    assert json_timestamp("2019-03-02T10:25:35") == Timestamp(T, has_zone=False)


def test_no_time_is_later_than_pandas_can_hold():
    assert parse_timestamp(b"2255-03-14 15:59:59") == Timestamp(9e9 - 1, has_zone=False)
    assert parse_timestamp(b"2255-03-14 16:00:00") is None


@pytest.mark.parametrize(
    "text",
    [
        "2019-13-02T10:25:35Z",
        "2019-02-30 10:25:35",
        "Foo Bar 12 10:25:35 2019",
        "0000-01-01 00:00:00",
        "9999-12-31 23:59:59",
        "1066-10-14 09:00:00",
    ],
)
def test_what_is_no_day_is_no_time(text):
    assert parse_timestamp(text.encode()) is None


@pytest.mark.parametrize(
    "form",
    [
        "2026-{}-02 10:05:{},087 INFO",
        "[2026-{}-02T10:05:{}.5+01:30] ",
        "2026-{}-02 23:59:{}",
        "{}/02/2026 10:05:{}",
    ],
)
def test_times_of_many_lines_are_those_of_each(form):
    lines = [
        form.format(*parts).encode() for parts in (("03", "07"), ("13", "07"), ("03", "60"), ("12", "59"))
    ]
    slices = timestamp_slices(lines[0].translate(DIGITS_TO_ZERO), 0, len(lines[0]))
    assert slices is not None
    each = [parse_timestamp(line) for line in lines]
    assert slices.seconds_of(lines) == [found and found.seconds for found in each]
    assert [slices.parse(line) for line in lines] == each
