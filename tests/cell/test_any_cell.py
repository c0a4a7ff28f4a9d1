"""Whatever stands on a job cell's line and below it: a request comes of it, or a refusal in our own words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.cell import Notebook, parse
from batchai_magics.cell.cell_options import OPTIONS, expected_in_cell
from batchai_magics.cell.cell_request import describe
from batchai_magics.config import Settings
from batchai_magics.options.option import split_at_cursor
from tests import odd_inputs
from tests.models.samples import job_body

FLAGS = [flag for option in OPTIONS for flag in option.flags]
words = st.one_of(
    st.sampled_from(FLAGS),
    odd_inputs.texts,
    st.builds("{}={}".format, st.sampled_from(FLAGS), odd_inputs.texts),
)
ENV = {
    "TOKEN": odd_inputs.SECRET,
    "AZURE_BATCHAI_STORAGE_ACCOUNT": "acc",
    "AZURE_BATCHAI_STORAGE_KEY": odd_inputs.SECRET,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder, in which a cell looks for files; also the home of who runs the tests: `--upload ~`."""
    made = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made))
        yield made


def read(line: str, body: str, folder: Path) -> None:
    request = parse(
        line,
        body,
        settings=Settings(),
        notebook=Notebook(names={"x": 1, "y": object()}, folder=folder, env=ENV),
    )
    assert odd_inputs.SECRET not in describe(request) + repr(request)


@given(st.lists(words, max_size=6), st.sampled_from(["print('hi')", "", "\0", "x = '\ud800'", "(" * 300]))
def test_any_words_on_the_line(folder: Path, line: list[str], body: str) -> None:
    for text in (shlex.join(["job", *line]), shlex.join(line), " ".join(line)):
        odd_inputs.rejection(lambda text=text: read(text, body, folder))
    assert not list(folder.iterdir())


@given(st.sampled_from(OPTIONS), odd_inputs.texts)
def test_any_value_of_one_option(folder: Path, option, value: str) -> None:
    for line in (["job", option.flags[0], value], ["job", f"{option.flags[0]}={value}"]):
        odd_inputs.rejection(lambda line=line: read(shlex.join(line), "print('hi')", folder))


@given(odd_inputs.serialized(job_body()))
def test_any_description_below_the_line(folder: Path, body: str) -> None:
    odd_inputs.rejection(
        lambda: read("job --spec --nodes 2 --env A=b --input D=/d --mount data", body, folder)
    )


@given(st.text(st.characters(), max_size=30))
def test_any_text_is_completed(text: str) -> None:
    at_cursor = split_at_cursor(text)
    if at_cursor:
        expected_in_cell(at_cursor[0])


@given(st.text(st.characters(), max_size=30), st.text(st.characters(), max_size=60))
def test_any_text_at_all(folder: Path, line: str, body: str) -> None:
    odd_inputs.rejection(lambda: read(line, body, folder))
