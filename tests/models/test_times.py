from datetime import datetime, timedelta, timezone

import pytest

from batchai_magics.models.times import duration, wire_time


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
