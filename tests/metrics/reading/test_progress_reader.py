"""How far a run is, read from what it prints, in any pieces."""

import random

import pytest

from batchai_magics.metrics.reading.progress_reader import Progress, ProgressReader, format_duration


def read(*pieces, began=None):
    """The progress after pieces that come a second apart."""
    reader = ProgressReader(began)
    for second, piece in enumerate(pieces):
        reader.feed(piece.encode(), at=100.0 + second)
    return reader.progress


def test_a_run_that_tells_nothing_has_no_progress():
    assert read("loss = 0.5\n", "100\timages/sec: 213.4\n", "") is None


def test_the_newest_bar_counts_also_when_its_line_has_no_end():
    now = read("\r 10%|#    | 10/100 [00:01<00:09, 10it/s]\r 45%|####  | 45/100 [00:04<00:05, 10it/s]")
    assert (now.fraction, now.words, now.ends_at) == (0.45, "45/100", 105.0)


def test_a_count_is_read_only_when_its_line_has_ended():
    assert read("step 3/1") is None
    assert read("step 3/1", "0\n").fraction == 0.3


def test_a_bar_that_is_cut_in_pieces_is_read_once_it_is_whole():
    assert read("\r 45%|####  | 4", "5/100 [00:04<00:05, 10it/s]").words == "45/100"


def test_the_cell_of_a_notebook_that_has_begun_is_not_done_and_tells_no_end():
    now = read("cell 1/5\n", "1\n", "cell 4/5\n", began=90.0)
    assert (now.fraction, now.words, now.ends_at) == (0.6, "cell 4/5", None)


def test_the_bar_of_an_epoch_is_a_part_of_all_epochs():
    now = read("Epoch 2/4\n", "12/48 [=====>....] - ETA: 2s\n")
    assert (now.fraction, now.words) == (0.3125, "epoch 2/4 · 12/48")


def test_a_new_epoch_begins_with_nothing_done_in_it():
    now = read("Epoch 2/4\n48/48 [======] - 1s 5ms/step\n", "Epoch 3/4\n")
    assert (now.fraction, now.words) == (0.5, "epoch 3/4")


def test_a_line_with_results_ends_its_epoch_and_the_next_bar_is_of_the_next_one():
    assert read("Epoch 2/4 - loss: 0.5\n").fraction == 0.5
    for ended in ("Epoch 2/4 - loss: 0.5\n", "Epoch 2/4, loss 0.5, step 300\n"):
        now = read(ended, " 50%|##  | 5/10 [00:01<00:01, 5it/s]\n")
        assert (now.fraction, now.words) == (0.625, "epoch 3/4 · 5/10")


def test_a_validation_is_not_the_progress_of_its_run():
    now = read("Iter(train) [ 2000/40000]  loss: 0.5\n", "Iter(val) [500/500]    mIoU: 30.0\n")
    assert (now.fraction, now.words) == (0.05, "iter 2000/40000")


def test_epochs_counted_from_zero_are_one_more_than_the_last_one_says():
    assert read("Epoch 0/9\n").fraction == 0.0
    assert read("Epoch 0/9\n", "Epoch 5/9\n").fraction == 0.5


def test_an_epoch_is_found_far_back_in_what_came_since():
    redraws = "".join(f"\r{step}/48 [=====>....] - ETA: 2s - loss: 0.5{' ' * 200}" for step in range(48))
    assert read(f"Epoch 2/4\n{redraws * 20}").words == "epoch 2/4 · 47/48"


def test_nobody_knows_the_epoch_behind_more_than_is_looked_at():
    now = read("Epoch 2/4\n", "a line of no interest\n" * 20_000 + "1/48 [>....] - ETA: 2s\n")
    assert now.words == "1/48"


def test_the_end_is_where_the_pace_leads_when_the_bar_is_only_of_an_epoch():
    now = read("Epoch 1/2\n", "24/48 [==>..] - 1s 5ms/step\n", "48/48 [====] - 1s 5ms/step\n")
    assert (now.fraction, now.ends_at) == (0.5, 104.0)


def test_what_is_left_of_an_epoch_tells_how_long_all_of_them_take_on():
    now = read("Epoch 1/10\n", "Epoch 4/10\n 50%|##  | 5/10 [00:30<00:30, 6s/it]\n")
    assert (now.fraction, now.left_s(101.0)) == (0.35, pytest.approx(390.0))
    now = read("Epoch 2/4\n 50%|##  | 5/10 [00:30<00:30, 6s/it]\n", "Epoch 3/4\n")
    assert now.left_s(101.0) == pytest.approx(120.0)


def test_the_end_follows_from_the_begin_of_the_run_while_there_is_one_sighting():
    assert read("step 25/100\n", began=90.0).ends_at == pytest.approx(130.0)
    assert read("step 25/100\n").ends_at is None
    assert read("step 0/100\n", began=90.0).ends_at is None


def test_a_bar_of_one_of_unknown_epochs_says_so():
    now = read("Epoch 5:  50%|##  | 50/100 [00:01<00:30, 1it/s]")
    assert now.is_of_epoch
    assert now.sentence(100.0) == "50 %, Epoch 5 50/100, 30 s left in this epoch"
    assert read("Epoch 5\n", "loss: 1.7  [   64/60000]\n").is_of_epoch
    assert not read("step 64/60000\n").is_of_epoch


def test_the_lowest_rank_that_tells_anything_is_believed():
    reader = ProgressReader()
    reader.feed(b"nothing\n", at=1.0, rank=0)
    for rank, step in ((3, 30), (2, 20), (3, 40)):
        reader.feed(f"step {step}/100\n".encode(), at=1.0, rank=rank)
    assert reader.progress.words == "step 20/100"
    assert reader.wants(0)
    assert not reader.wants(3)


def test_streams_have_each_their_unfinished_line():
    reader = ProgressReader()
    reader.feed(b"step 3", at=1.0, stream="stdout.txt")
    reader.feed(b"a warning\n", at=1.0, stream="stderr.txt")
    reader.feed(b"0/100\n", at=1.0, stream="stdout.txt")
    assert reader.progress.words == "step 30/100"


def test_any_bytes_are_read_without_complaint():
    noise = random.Random(7)
    reader = ProgressReader(0.0)
    words = [
        b"epoch ",
        b"step ",
        b"0/0",
        b"9/3",
        b"%|",
        b"| ",
        b"[00:01<",
        b"\r",
        b"\n",
        b"\xff",
        b"1/2",
        b" of ",
        b"\x1b[",
    ]
    for _ in range(2000):
        reader.feed(b"".join(noise.choices(words, k=12)), at=1.0)
        assert reader.progress is None or 0 <= reader.progress.fraction <= 1


def test_progress_reads_as_a_sentence():
    assert Progress(0.457, "step 457/1000", 400.0).sentence(100.0) == "45 %, step 457/1000, 5 min left"
    assert Progress(0.5, "epoch 5/10").sentence(0.0) == "50 %, epoch 5/10"
    assert Progress(0.999, "", 100.0).sentence(200.0) == "99 %"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min"), (7260, "2 h 1 min"), (7200, "2 h"), (90_000, "1 d 1 h")],
)
def test_a_span_has_its_two_greatest_units(seconds, words):
    assert format_duration(seconds) == words
