import pytest

from batchai_magics.metrics import Parser
from tests.metrics.log_text import step, step_lines

LINE = step(10).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"\x1b[33m" + LINE + b"\x1b[0m",
        LINE.replace(b"images", b"im\x1b[1mages"),
        b"\0" * 4096 + LINE,
        LINE.replace(b"/", b"\0/"),
        b"\b\b\b" + LINE,
        LINE + b" \xff\xfe\xc3(",
        b"\xe2\x94 " + LINE,
        LINE + b"\r",
        b"25% done\r" + LINE,
        step(10).encode("utf-16-le"),
        b"```" + LINE,
    ],
)
def test_a_step_line_is_read_through(line):
    assert [(r.step, r.loss) for r in step_lines(Parser().feed(line + b"\n"))] == [(10, 7.087)]
