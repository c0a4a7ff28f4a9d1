"""Tables of text."""

from batchai_magics.cards.card_parts import text_table
from batchai_magics.commands.output.text_table import Table

CLIPBOARD = "x\x1b]52;c;aGk=\x07"


def test_names_of_columns_are_escaped_as_cells_are() -> None:
    table = Table((CLIPBOARD, "loss"), ((CLIPBOARD, 1.0),))
    assert "\x1b" not in table.to_text()
    assert table.to_text().splitlines()[0].startswith("x\\x1b]52;c;aGk=\\x07")
    assert "\x1b" not in text_table([CLIPBOARD], [[CLIPBOARD]])


def test_each_cell_is_looked_at_once_to_align_its_column():
    seen = []

    class Row(tuple):
        def __getitem__(self, column):
            seen.append(column)
            return super().__getitem__(column)

    Table(("a", "b"), tuple(Row((n, "x")) for n in range(50))).to_text()
    assert len(seen) <= 2 * 50
