"""The common log that is composed of the logs of processes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from batchai_magics.backends.azureml.job_logs import CACHE_BYTES, LogJournal
from batchai_magics.backends.azureml.run_details import RankLog

ALONE = RankLog("user_logs/std_log.txt", 0, 0)
RANKS = [RankLog(f"user_logs/std_log_process_{rank}.txt", 0, rank, str(rank)) for rank in range(3)]


def text(journal: LogJournal) -> bytes:
    return journal.cached(0, journal.end) or b""


def test_a_lone_process_shows_an_unfinished_line_at_once() -> None:
    journal = LogJournal()
    journal.add(ALONE, b"Continue? ")
    assert text(journal) == b"Continue? "


def test_a_progress_bar_is_shown_while_it_is_drawn() -> None:
    journal = LogJournal()
    journal.add(RANKS[0], b"10%\r20%\r30%")
    assert text(journal) == b"10%\r20%\r"


def test_an_endless_line_is_not_held_back_for_ever() -> None:
    journal = LogJournal()
    journal.add(RANKS[0], b"x" * 70_000)
    assert journal.end == 70_000


def test_the_beginning_of_a_long_log_is_read_again() -> None:
    journal = LogJournal()
    journal.add(ALONE, b"a" * CACHE_BYTES)
    journal.add(ALONE, b"b")
    assert journal.cached(0, 1) is None
    assert journal.cached(1, 2) == b"a"
    assert journal.cached(CACHE_BYTES, CACHE_BYTES + 1) == b"b"


@given(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=12)), max_size=40))
def test_no_byte_is_lost_repeated_or_attributed_to_another_process(reads: list[tuple[int, bytes]]) -> None:
    journal = LogJournal()
    for rank, data in reads:
        journal.add(RANKS[rank], data)
    journal.finish()
    whole = text(journal)
    for rank, log in enumerate(RANKS):
        own = b"".join(data for writer, data in reads if writer == rank)
        pieces = [piece for piece in journal.pieces(0, journal.end) if piece.log == log]
        assert b"".join(whole[piece.start : piece.end] for piece in pieces) == own
        assert all(
            own[piece.source :][: piece.end - piece.start] == whole[piece.start : piece.end]
            for piece in pieces
        )
    assert sum(piece.end - piece.start for piece in journal.pieces(0, journal.end)) == len(whole)
