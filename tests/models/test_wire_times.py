from datetime import datetime, timedelta, timezone

import pytest

from batchai_magics.models.wire_times import duration, parse_time, wire_time


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("P7D", timedelta(days=7)),
        ("PT1H30M", timedelta(minutes=90)),
        ("P1DT0.5S", timedelta(days=1, milliseconds=500)),
        ("7.00:00:00", timedelta(days=7)),
        ("0:00:30", timedelta(seconds=30)),
        ("1 day, 2:00:00", timedelta(hours=26)),
    ],
)
def test_time_spans_are_read_in_every_spelling(text, span):
    assert duration(text) == span


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2018, 6, 6, 20, 59, 38, 611_000, timezone.utc), "2018-06-06T20:59:38.611Z"),
        (datetime(2018, 6, 6, 20, 59, 38, 100_000, timezone.utc), "2018-06-06T20:59:38.1Z"),
        (datetime(2018, 6, 6, 20, 0, 0, 0, timezone.utc), "2018-06-06T20:00:00Z"),
        (datetime(2018, 6, 6, 22, 0, 0, 0, timezone(timedelta(hours=2))), "2018-06-06T20:00:00Z"),
    ],
)
def test_moments_are_written_as_the_service_wrote_them(moment, text):
    assert wire_time(moment) == text


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2018-06-06T20:59:38.611Z", datetime(2018, 6, 6, 20, 59, 38, 611_000, timezone.utc)),
        ("2018-06-06T20:59:38.1Z", datetime(2018, 6, 6, 20, 59, 38, 100_000, timezone.utc)),
        ("2018-06-06t20:59:38z", datetime(2018, 6, 6, 20, 59, 38, 0, timezone.utc)),
        ("2018-06-06T20:59:38.1234567Z", datetime(2018, 6, 6, 20, 59, 38, 123_456, timezone.utc)),
        ("2018-06-06T22:59:38+02:00", datetime(2018, 6, 6, 20, 59, 38, 0, timezone.utc)),
        (" 2018-06-06 20:59:38\n", datetime(2018, 6, 6, 20, 59, 38, 0, timezone.utc)),
    ],
)
def test_moments_are_read_in_any_spelling_and_given_in_utc(text, moment):
    assert parse_time(text) == moment
    assert parse_time(text).utcoffset() == timedelta(0)


@pytest.mark.parametrize("text", ["", "yesterday", "2018-06-06", "20:59:38", "2018-13-06T20:59:38Z"])
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(ValueError, match=r"not a time|month"):
        parse_time(text)
