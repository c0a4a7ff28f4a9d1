"""What single lines tell of how far a run is, and which tell nothing."""

import pytest

from batchai_magics.metrics.reading.line_splitter import strip_escapes
from batchai_magics.metrics.reading.progress_reader import Count, LineCounts, counts_of

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


def read(line, *, is_whole=True):
    return counts_of(strip_escapes(line.encode()), is_whole=is_whole)


@pytest.mark.parametrize(("line", "expected"), [*BARS.items(), *COUNTS.items()])
def test_a_bar_or_count_is_read_as_it_stands(line, expected):
    seen = read(line)
    assert seen is not None
    epoch, within = seen.epoch and seen.epoch.words, seen.within and seen.within.words
    assert (epoch, within, seen.left_s) == expected


@pytest.mark.parametrize("line", ORDINARY)
def test_an_ordinary_line_is_no_progress(line):
    assert read(line) in (None, LineCounts())


@pytest.mark.parametrize(
    ("line", "is_begun"),
    [
        ("Epoch 3/10", True),
        ("Epoch 3/10:", True),
        ("Epoch 3/10 - loss: 0.5", False),
        ("Epoch [3/10], Step [1/2]", True),
        ("Epoch 10/10, loss: 0.5, step 3000", False),
        ("Epoch 10/10 finished, global_step: 1000", False),
        ("Epoch 10/10 done. Best epoch 7/10", False),
        ("Epoch 5/10 done in 12 s, iteration 500", False),
        ("loss 0.5, epoch 5/10", False),
    ],
)
def test_a_line_with_results_comes_when_its_epoch_has_ended(line, is_begun):
    assert read(line).is_epoch_start is is_begun


@pytest.mark.parametrize(
    ("done", "total", "fraction"),
    [("3", "4", 0.75), ("45.0M", "1G", 0.045), ("5", "", 0.05), ("5", "4", None)],
)
def test_a_count_is_a_part_of_a_whole(done, total, fraction):
    assert Count(done, total).fraction == (None if fraction is None else pytest.approx(fraction))
