import json

import pytest

from batchai_magics.commands.handlers.backend_commands import SettingsChoice
from batchai_magics.commands.output.command_result import Result
from batchai_magics.commands.output.text_table import Table, table_of_data
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.magics.extension import result_html

DATA = [
    {"name": "a", "count": 1, "isThere": True, "tags": None},
    {"name": "b", "count": 12, "isThere": False, "tags": None},
]


def test_text_columns_stand_left_and_numbers_right():
    table = Table(("Name", "Nodes"), (("a", 1), ("bcd", 12)))
    assert table.to_text().splitlines() == ["Name  Nodes", "----  -----", "a         1", "bcd      12"]


def test_words_are_no_numbers_and_nothing_is_no_hindrance():
    table = Table(("Here", "Count"), ((True, 1), (False, None), (True, 100)))
    assert [line.rstrip() for line in table.to_text().splitlines()] == [
        "Here   Count",
        "-----  -----",
        "True       1",
        "False",
        "True     100",
    ]


def test_html_is_escaped():
    html = result_html(Result([{"<i>": "<b>"}]))
    assert "&lt;b&gt;" in html
    assert "&lt;i&gt;" in html


def test_data_without_columns_shows_its_scalars_sorted():
    assert table_of_data({"name": "n", "b": 1, "id": "/x", "a": {"deep": 1}, "none": None}) == Table(
        ("B", "Name"), ((1, "n"),)
    )


def test_a_query_keeps_its_own_columns():
    result = Result(DATA, "[].{Name: name, Here: isThere}")
    assert result.to_text("table").splitlines()[0].split() == ["Name", "Here"]


def test_the_table_of_a_query_is_that_of_az():
    data = [{"name": "a", "parts": {"x": 1}, "id": "/x", "none": None}]
    result = Result(data, "[].{name: name, parts: parts, id: id, none: none}")
    assert [line.split() for line in result.to_text("table").splitlines()] == [
        ["Name", "Id", "None"],
        ["----", "--", "----"],
        ["a", "/x"],
    ]


def test_a_query_of_lists_has_numbered_columns():
    assert Result(DATA, "[].[name, count]").table.titles == ("Column1", "Column2")


def test_json_is_indented_and_keeps_letters():
    assert Result({"a": "ü"}).to_text("json") == '{\n  "a": "ü"\n}'


def test_tsv_has_a_line_a_thing():
    assert Result(DATA).to_text("tsv") == "a\t1\ttrue\tNone\nb\t12\tfalse\tNone"
    assert Result(DATA, "[].name").to_text("tsv") == "a\nb"
    assert Result(DATA, "[0].name").to_text("tsv") == "a"


def test_tsv_counts_what_is_in_a_list_and_leaves_objects_out():
    assert Result({"tags": ["a", "b"], "deep": {"x": 1}, "last": 2}).to_text("tsv") == "2\t\t2"


def test_yaml_reads_back():
    assert Result(DATA, "[].name").to_text("yaml") == "- a\n- b"
    assert Result(DATA, "[0].name").to_text("yaml") == "a"


def test_none_says_nothing():
    assert Result(DATA).to_text("none") == ""
    assert Result(None).to_text("json") == ""


def test_a_wrong_query_is_an_error():
    with pytest.raises(UsageError, match="--query"):
        _ = Result(DATA, "[").data


def test_a_result_is_its_things():
    result = Result(DATA)
    assert len(result) == 2
    assert [item["name"] for item in result] == ["a", "b"]
    assert result[1]["name"] == "b"


def test_a_result_becomes_a_frame():
    frame = Result(DATA, "[].{name: name, count: count}").to_frame()
    assert list(frame.columns) == ["name", "count"]
    assert frame["count"].sum() == 13


def test_an_empty_list_is_shown_as_nothing():
    assert repr(Result([])) == "(nothing)"
    assert json.loads(Result([]).to_text("json")) == []


def test_a_choice_tells_its_names():
    result = Result(SettingsChoice(Settings(workspace="mine")))
    assert result.data["workspace"] == "mine"
    assert "Workspace" in result.table.titles
