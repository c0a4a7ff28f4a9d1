from batchai_magics.commands.output.shell_output import MIN_COLUMN, compact, fitted, fitted_table
from batchai_magics.commands.output.text_table import Table


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
