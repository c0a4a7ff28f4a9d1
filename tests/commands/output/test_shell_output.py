from batchai_magics.commands.output.shell_output import MIN_COLUMN, compact, fitted
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
