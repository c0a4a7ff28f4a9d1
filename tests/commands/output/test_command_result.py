import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.cards.card_parts import text_table
from batchai_magics.commands.handlers.backend_commands import SettingsChoice
from batchai_magics.commands.output.command_result import Result, indented_json
from batchai_magics.commands.output.shell_output import MIN_COLUMN, compact, fitted, fitted_table
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


def test_column_of_numbers_may_have_empty_cells():
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


JSON_KEYS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
JSON_DATA = st.recursive(
    JSON_KEYS,
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(JSON_KEYS, inner),
)


@given(JSON_DATA)
def test_indented_json_equals_the_standard_librarys(data):
    assert indented_json(data) == json.dumps(data, indent=2, ensure_ascii=False)


class Streamed:
    def __init__(self, count):
        self.rows = iter([{"n": number, "\u202e": ["é"]} for number in range(count)])

    def streamed_data(self):
        return {"rows": self.rows, "empty": iter(()), "rest": {"a\n": []}}


def test_json_of_streamed_data_is_read_while_it_is_written():
    streamed = Streamed(3)
    pieces = Result(streamed).text_pieces("json")
    first = next(pieces)
    assert next(streamed.rows)["n"] == 0  # was not read yet
    text = first + "".join(pieces)
    rows = [{"n": number, "\u202e": ["é"]} for number in (1, 2)]
    data = {"rows": rows, "empty": [], "rest": {"a\n": []}}
    assert text == json.dumps(data, indent=2, ensure_ascii=False).replace("\u202e", "\\u202e")


def test_tsv_has_a_line_per_item():
    assert Result(DATA).to_text("tsv") == "a\t1\ttrue\tNone\nb\t12\tfalse\tNone"
    assert Result(DATA, "[].name").to_text("tsv") == "a\nb"
    assert Result(DATA, "[0].name").to_text("tsv") == "a"


def test_tsv_counts_what_is_in_a_list_and_leaves_objects_out():
    assert Result({"tags": ["a", "b"], "deep": {"x": 1}, "last": 2}).to_text("tsv") == "2\t\t2"


def test_yaml_output_of_a_query():
    assert Result(DATA, "[].name").to_text("yaml") == "- a\n- b"
    assert Result(DATA, "[0].name").to_text("yaml") == "a"


def test_output_none_prints_nothing():
    assert Result(DATA).to_text("none") == ""
    assert Result(None).to_text("json") == ""


def test_a_wrong_query_is_an_error():
    with pytest.raises(UsageError, match="--query"):
        _ = Result(DATA, "[").data


def test_result_is_a_sequence_of_its_items():
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


def test_chosen_settings_are_shown_by_name():
    result = Result(SettingsChoice(Settings(workspace="mine")))
    assert result.data["workspace"] == "mine"
    assert "Workspace" in result.table.titles


def test_empty_columns_and_shared_scopes_are_left_out():
    table = Table(("Name", "Workspace", "Note", "Exit code"), (("a", "w", "", 0), ("b", "w", "", 1)))
    assert compact(table).titles == ("Name", "Exit code")


def test_a_workspace_that_differs_is_kept():
    table = Table(("Name", "Workspace"), (("a", "w"), ("b", "v")))
    assert compact(table).titles == ("Name", "Workspace")


def test_the_widest_column_is_cut_first_and_the_name_last():
    rows = [("n" * 30, "x" * 50, "y" * 20)]
    assert fitted([4, 4, 4], rows, 104) == [30, 50, 20]
    assert fitted([4, 4, 4], rows, 80) == [30, 26, 20]
    assert fitted([4, 4, 4], rows, 40) == [24, MIN_COLUMN, MIN_COLUMN]


def test_a_cell_is_turned_into_text_twice_however_many_rows_there_are():
    class Cell:
        shown = 0

        def __str__(self):
            Cell.shown += 1
            return "x"

    compact_table = compact(Table(("Name", "State"), tuple((Cell(), "running") for _ in range(200))))
    fitted_table(compact_table, 80)
    assert Cell.shown == 2 * 200


def test_a_fitted_table_has_cut_cells_and_coloured_states():
    table = Table(("Name", "N", "State"), (("j" * 30, 1, "failed"), ("k", 22, "running")))
    shown = fitted_table(table, 40)
    assert shown.plain.split("\n") == [
        "Name                           N  State ",
        f"{'j' * 27}…   1  failed",
        f"{'k':28}  22  runni…",
    ]
    assert {str(span.style) for span in shown.spans} >= {"bold", "bold red", "cyan"}


CLIPBOARD = "x\x1b]52;c;aGk=\x07"


def test_names_of_columns_are_escaped_as_cells_are() -> None:
    table = Table((CLIPBOARD, "loss"), ((CLIPBOARD, 1.0),))
    assert "\x1b" not in table.to_text()
    assert table.to_text().splitlines()[0].startswith("x\\x1b]52;c;aGk=\\x07")
    assert "\x1b" not in text_table([CLIPBOARD], [[CLIPBOARD]])
