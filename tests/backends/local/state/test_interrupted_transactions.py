"""An interrupt between two statements leaves no transaction open for the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchai_magics.backends.local.state.store import Store


@pytest.mark.parametrize("begin", ["snapshot", "write"])
def test_a_transaction_begins_after_one_that_was_left_open(tmp_path: Path, begin: str) -> None:
    store = Store(tmp_path / "state.db")
    with store.read() as db:
        db.execute("BEGIN")  # as an interrupt leaves it
    with getattr(store, begin)():
        pass
    with store.write() as db:
        assert db.execute("PRAGMA quick_check").fetchone()
    store.close()
