"""How far a run is, read from what it prints, in any pieces; which lines tell nothing of it."""

import random

import pytest

from batchai_magics.metrics.reading.progress_reader import Progress, ProgressReader, format_duration


def read(*pieces, began=None):
    """The progress after pieces that come a second apart."""
    reader = ProgressReader(began)
    for second, piece in enumerate(pieces):
        reader.feed(piece.encode(), at=100.0 + second)
    return reader.progress


def test_the_newest_bar_counts_also_when_its_line_has_no_end():
    now = read("\r 10%|#    | 10/100 [00:01<00:09, 10it/s]\r 45%|####  | 45/100 [00:04<00:05, 10it/s]")
    assert (now.fraction, now.words, now.ends_at) == (0.45, "45/100", 105.0)


def test_a_count_is_read_only_when_its_line_has_ended():
    assert read("step 3/10") is None
    assert read("step 3/10", "0\n").fraction == 0.03
    assert read("\r 45%|####  | 4", "5/100 [00:04<00:05, 10it/s]").words == "45/100"


def test_a_count_is_a_part_of_a_whole():
    assert read("model.bin:   4%|4   | 45.0M/1G [00:01<00:09, 9.0MB/s]\n").fraction == pytest.approx(0.045)
    assert read("total [##......] 36.67%\n").fraction == pytest.approx(0.3667)
    assert read("Epoch 0/9\n").fraction == 0.0
    assert read("Epoch 0/9\n", "Epoch 5/9\n").fraction == 0.5  # one more than the last one says


def test_started_notebook_cell_is_not_counted_as_done_and_predicts_no_end():
    now = read("cell 1/5\n", "1\n", "cell 4/5\n", began=90.0)
    assert (now.fraction, now.words, now.ends_at) == (0.6, "cell 4/5", None)


def test_the_bar_of_an_epoch_is_a_part_of_all_epochs():
    now = read("Epoch 2/4\n", "12/48 [=====>....] - ETA: 2s\n")
    assert (now.fraction, now.words) == (0.3125, "epoch 2/4 · 12/48")


def test_a_new_epoch_begins_with_nothing_done_in_it():
    ended, begun = "Epoch 2/4\n48/48 [======] - 1s 5ms/step\n", "Epoch 3/4\n"
    for now in (read(ended, begun), read(ended + begun)):
        assert (now.fraction, now.words) == (0.5, "epoch 3/4")


def test_a_line_with_results_ends_its_epoch_and_the_next_bar_is_of_the_next_one():
    assert read("Epoch 2/4 - loss: 0.5\n").fraction == 0.5
    for ended in ("Epoch 2/4 - loss: 0.5\n", "Epoch 2/4, loss 0.5, step 300\n"):
        now = read(ended, " 50%|##  | 5/10 [00:01<00:01, 5it/s]\n")
        assert (now.fraction, now.words) == (0.625, "epoch 3/4 · 5/10")


def test_a_validation_is_not_the_progress_of_its_run():
    now = read("Iter(train) [ 2000/40000]  loss: 0.5\n", "Iter(val) [500/500]    mIoU: 30.0\n")
    assert (now.fraction, now.words) == (0.05, "iter 2000/40000")


def test_an_epoch_is_found_far_back_in_what_came_since():
    redraws = "".join(f"\r{step}/48 [=====>....] - ETA: 2s - loss: 0.5{' ' * 200}" for step in range(48))
    assert read(f"Epoch 2/4\n{redraws * 20}").words == "epoch 2/4 · 47/48"


def test_epoch_too_far_above_a_bar_is_unknown():
    now = read("Epoch 2/4\n", "a line of no interest\n" * 20_000 + "1/48 [>....] - ETA: 2s\n")
    assert now.words == "1/48"


def test_end_is_predicted_by_the_pace_if_the_bar_is_of_an_epoch():
    now = read("Epoch 1/2\n", "24/48 [==>..] - 1s 5ms/step\n", "48/48 [====] - 1s 5ms/step\n")
    assert (now.fraction, now.ends_at) == (0.5, 104.0)


def test_time_left_in_an_epoch_predicts_the_end_of_all_epochs():
    now = read("Epoch 1/10\n", "Epoch 4/10\n 50%|##  | 5/10 [00:30<00:30, 6s/it]\n")
    assert (now.fraction, now.left_s(101.0)) == (0.35, pytest.approx(390.0))
    now = read("Epoch 2/4\n 50%|##  | 5/10 [00:30<00:30, 6s/it]\n", "Epoch 3/4\n")
    assert now.left_s(101.0) == pytest.approx(120.0)


def test_the_end_of_an_epoch_does_not_tell_how_long_it_took():
    bars = (" 50%|##  | 5/10 [00:30<00:30, 6s/it]\n", "100%|####| 10/10 [01:00<00:00, 6s/it]\n")
    now = read("Epoch 1/4\n", *bars)
    assert (now.fraction, now.left_s(102.0)) == (0.25, pytest.approx(180.0))


def test_the_pace_of_a_run_that_begins_again_is_that_since_then():
    assert read("step 50/100\n", "step 10/100\n", "step 20/100\n").ends_at == pytest.approx(110.0)


def test_end_is_predicted_from_the_start_of_the_run_after_one_reading():
    assert read("step 25/100\n", began=90.0).ends_at == pytest.approx(130.0)
    assert read("step 25/100\n").ends_at is None
    assert read("step 0/100\n", began=90.0).ends_at is None


def test_a_bar_of_one_of_unknown_epochs_says_so():
    now = read("Epoch 5:  50%|##  | 50/100 [00:01<00:30, 1it/s]")
    assert now.is_of_epoch
    assert now.sentence(100.0) == "50 %, Epoch 5 50/100, 30 s left in this epoch"
    assert read("Epoch 5\n", "loss: 1.7  [   64/60000]\n").is_of_epoch
    assert not read("step 64/60000\n").is_of_epoch


def test_lowest_rank_that_prints_progress_counts():
    reader = ProgressReader()
    reader.feed(b"nothing\n", at=1.0, rank=0)
    for rank, step in ((3, 30), (2, 20), (3, 40)):
        reader.feed(f"step {step}/100\n".encode(), at=1.0, rank=rank)
    assert reader.progress.words == "step 20/100"
    assert reader.wants(0)
    assert not reader.wants(3)


def test_a_reader_tells_whether_it_was_given_progress():
    reader = ProgressReader()
    assert reader.feed(b"step 3/40\n", at=1.0, rank=1)
    assert not reader.feed(b"hello\n", at=2.0, rank=1)
    assert not reader.feed(b"step 9/40\n", at=3.0, rank=2)


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
def test_duration_has_its_two_largest_units(seconds, words):
    assert format_duration(seconds) == words


# Each as the program prints it; what is to be read: epoch, count, seconds left.
BARS = {
    " 10%|█         | 10/100 [00:10<01:30,  1.00it/s]": (None, "10/100", 90),
    "train:  45%|####5     | 45/100 [00:01<?, ?it/s]": (None, "train 45/100", None),
    "model.bin:  45%|████▌     | 45.0M/100M [00:01<1:02:03, 45.0MB/s]": (None, "model.bin 45.0M/100M", 3723),
    "a: b:  50%|█| 1/2 [00:01<00:01, 1.00s/it, loss=0.5]": (None, "a: b 1/2", 1),
    "Epoch 5:  50%|█████     | 50/100 [00:01<00:01, 45.0it/s, v_num=0]": (None, "Epoch 5 50/100", 1),
    "Epoch 3/10:  50%|█████     | 50/100 [00:01<00:01, 45.0it/s]": ("epoch 3/10", "50/100", 1),
    "Epochs:  30%|███       | 3/10 [01:00<02:20, 20.00s/it]": ("epoch 3/10", None, 140),
    " 8%|8 | 2/24 [1 day, 2:03:04<12 days, 0:00:00, 9s/it]": (None, "2/24", 1_036_800),
    "12/48 [=====>........................] - ETA: 2s - loss: 0.9490": (None, "12/48", 2),
    "\b\b\b12/48 [=====>........................] - ETA: 1:02": (None, "12/48", 62),
    "48/48 [==============================] - 1s 5ms/step - loss: 0.9": (None, "48/48", None),
    "\x1b[1m12/48\x1b[0m \x1b[32m━━━━\x1b[0m\x1b[37m━━━━\x1b[0m \x1b[1m1:24\x1b[0m 714us/step - loss: 1": (
        None,
        "12/48",
        84,
    ),
    "Epoch 0/9 ━━━━━━━━╸━━━━━━━ 50/100 0:00:01 • 0:00:02 45.0it/s v_num: 0": ("epoch 0/9", "50/100", 2),
    "   ━━━━━━━━━━━━━━━━━━━━ 45.0/99.1 MB 12.3 MB/s eta 0:00:05": (None, "45.0/99.1", 5),
    "Working... ━━━━━━━━╸━━━━━━━  45% 0:00:05": (None, "Working... 45 %", 5),
    "acc: 0.1, batch: 123, batch_loss: 0.6812, loss: 0.6912 ||:  25%|##| 100/400 [00:10<00:30, 10it/s]": (
        None,
        "100/400",
        30,
    ),
    "fetching 12345 shards of the data and 23678 of the index:  50%|█| 1/2 [00:01<00:01, 1s/it]": (
        None,
        "of the data and 23678 of the index 1/2",
        1,
    ),
    '{"msg": " 45%|████▌     | 45/100 [00:05<00:06, 9it/s]", "level": "INFO"}': (None, "45/100", 6),
    "     total [##################................................] 36.67%": (None, "total 36.67 %", None),
}
COUNTS = {
    "step 30/100": (None, "step 30/100", None),
    "Step: 30 of 100, loss 2.5": (None, "step 30/100", None),
    "2018-05-01 12:00:00 INFO [train] iteration 7 out of 20": (None, "iteration 7/20", None),
    "Epoch 3/10": ("epoch 3/10", None, None),
    "epoch [3/10]": ("epoch 3/10", None, None),
    "Epoch: 3 of 10 - loss: 0.5": ("epoch 3/10", None, None),
    "Epoch [3/10], Step [100/600], Loss: 0.5": ("epoch 3/10", "step 100/600", None),
    "Finished Epoch[ 3 of 160]: [Training] loss = 2.3": ("epoch 3/160", None, None),
    " Epoch[ 3 of 160]-Minibatch[  11-  20, 4.00%]: loss = 2.3 * 640": ("epoch 3/160", "4.00 %", None),
    "Train Epoch: 3 [640/60000 (1%)]\tLoss: 0.5": (None, "epoch 3 · 640/60000", None),
    "Epoch: [0][  10/5005]\tTime 0.5 (0.6)": (None, "epoch 0 · 10/5005", None),
    "Epoch: [0]  [  10/5005]  eta: 0:12:30  lr: 0.1": (None, "epoch 0 · 10/5005", 750),
    "Epoch(train) [1][ 50/7330]  lr: 2e-3  eta: 1 day, 2:03:04": (None, "epoch 1 · 50/7330", 93_784),
    "07/01 10:00:00 - mmengine - INFO - Iter(train) [ 2000/40000]  lr: 1.0e-02  eta: 1:00:00  loss: 0.5": (
        None,
        "iter 2000/40000",
        3600,
    ),
    "loss: 1.700000  [   64/60000]": (None, "64/60000", None),
    "Train | Epoch 1 | 10/50 | loss 0.5": (None, "epoch 1 · 10/50", None),
    "Epoch 1, 10/50 batches, loss 0.5": (None, "epoch 1 · 10/50", None),
    "Epoch 1, 10/50 steps": (None, "epoch 1 · 10/50", None),
    "Epoch 3/10 val: step 10/20 loss 0.1": ("epoch 3/10", "step 10/20", None),
    "step 3/10 [loss<10:00]": (None, "step 3/10", None),
    '{"message": "Epoch 1/10: train loss 0.5123", "level": "INFO"}': ("epoch 1/10", None, None),
    '2026-01-02 10:00:00 INFO {"message": "step 5/10 loss 0.5"}': (None, "step 5/10", None),
}
ORDINARY = [
    "",
    "2018/05/01 12:30:00 starting",
    "Epoch 3",
    "epoch 3, loss 0.5",
    "Epoch 12/10",
    "Epoch 1/0",
    "step 3/4/2018",
    "steps 30/100",
    "batch_size 32/64",
    "batch size: 32/64",
    "batch 32/64.5",
    "step 1/2x",
    "loaded 3/4 of the shards",
    "rank 3/8 on node 1/2 is up",
    "worker 1 of 8 started",
    "layer 3/12: conv",
    "tests: 10/12 passed",
    "/data/epoch 3/10/weights.h5 3/a",
    "saved to ckpt/step-30/100.pt",
    "saved to runs/epoch/3/10",
    "accuracy 45/100 = 45%",
    "100%",
    "GPU 45% | 3/4 GiB",
    "Filesystem 45%| /dev/sda1 | 3/4 |",
    "| 45%| 3/4 | [00:10<00:20] |",
    "| model | 45% | 10/100 |",
    "progress: 45%| and more",
    "10%|█         | 10/",
    "10%|█         | 10/1",
    "123it [00:10, 12.3it/s]",
    "12/Unknown - 1s 5ms/step",
    "12/48 [0, 1, 2]",
    "12/4",
    "[12/48] is a slice",
    "48/12 [=====>.....]",
    "100\timages/sec: 213.4 +/- 1.0 (jitter = 2.0)\t2.345",
    "Iter #0: 123.4 img/sec per GPU",
    "eta: 0:10:20  iter: 19  total_loss: 1.2",
    "{'loss': 0.5, 'epoch': 1.0, 'step': 30}",
    "Epoch[0] Batch [20]\tSpeed: 1200 samples/sec",
    "────────────────────── 3/4 ──────────────────",
    "a table ━━━━━━━━━━ of 45 rows",
    "I0301 12:00:00 solver.cpp:218] Iteration 100 (2.5 iter/s, 40s/100 iters), loss = 0.5",
    "update 3.5/10",
    "step 1/2-3",
    "07/01 10:00:00 - mmengine - INFO - Iter(val) [500/500]    mIoU: 30.0  time: 0.1",
    "Valid | Epoch 1 | 10/50 | loss 0.5",
    "[INFO:sockeye.utils] GPU 0: 8599/11171 MB (76.98%)",
    "gpu 0: 12/80 GiB used, util 35%",
    "95/100 passed, loss 0.5",
    "epoch 3, 95/100 correct",
    "epoch 3, 95/100 images classified, loss 0.5",
]


@pytest.mark.parametrize(("line", "expected"), [*BARS.items(), *COUNTS.items()])
def test_a_bar_or_count_is_read_as_it_stands(line, expected):
    *counts, left_s = expected
    now = read(f"{line}\n")
    assert now.words == " · ".join(filter(None, counts))
    assert counts[0] or now.left_s(100.0) == left_s


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_is_no_progress(line):
    assert read(f"{line}\n") is None


ENDED = {
    "Epoch 3/10": 0.2,
    "Epoch 3/10:": 0.2,
    "Epoch 3/10 - loss: 0.5": 0.3,
    "Epoch [3/10], Step [1/2]": 0.25,
    "Epoch 10/10, loss: 0.5, step 3000": 1,
    "Epoch 10/10 finished, global_step: 1000": 1,
    "Epoch 10/10 done. Best epoch 7/10": 1,
    "Epoch 5/10 done in 12 s, iteration 500": 0.5,
    "loss 0.5, epoch 5/10": 0.5,
}


@pytest.mark.parametrize("line", ENDED)
def test_a_line_with_results_comes_when_its_epoch_has_ended(line):
    assert read(f"{line}\n").fraction == pytest.approx(ENDED[line])
