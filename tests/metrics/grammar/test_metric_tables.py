"""Tables: what their lines give, and which tables give nothing."""

import pytest

from batchai_magics.metrics import Parser
from batchai_magics.metrics.measurement import lines_of

BOX = """\
----------------------------------
| rollout/            |          |
|    ep_rew_mean      | 10.8     |
| time/               |          |
|    fps              | 30       |
|    total_timesteps  | 302      |
| train/              |          |
|    loss             | -1.5e-03 |
----------------------------------
"""
COLUMNS = """\
  epoch    train_loss    valid_acc    cp     dur
-------  ------------  -----------  ----  ------
      1        0.6851       0.6667     +  0.1211
      2        0.6827       0.6500        0.2392
"""


def read(text):
    """The rows of a text: epoch, step, and the numbers with their phases."""
    rows = lines_of(Parser().feed(text.encode()))
    return [
        (row[0].epoch, row[0].step, [(each.name, each.value, each.phase) for each in row]) for row in rows
    ]


def pairs(text):
    """The epoch and the first number of each row."""
    return [(epoch, numbers[0][1]) for epoch, _, numbers in read(text)]


def test_each_box_is_read_at_its_end_with_the_position_in_it():
    others = [("time/fps", 30, "train"), ("loss", -0.0015, "train")]
    assert read(BOX + BOX.replace("10.8", "11.8").replace("302", "402")) == [
        (None, 302, [("rollout/ep_rew_mean", 10.8, "train"), *others]),
        (None, 402, [("rollout/ep_rew_mean", 11.8, "train"), *others]),
    ]


@pytest.mark.parametrize(
    "line", ["|    total_timesteps  | 302      |\n", "|    loss             | -1.5e-03 |\n"]
)
def test_a_box_that_lacks_a_position_or_a_measure_gives_nothing(line):
    text = BOX.replace(line, "")
    text = text.replace("|    ep_rew_mean      | 10.8     |\n", "").replace(
        "|    fps              | 30       |\n", ""
    )
    assert read(text) == []


@pytest.mark.parametrize("step", ["1e999", "nan", "inf"])
def test_a_box_with_a_step_that_is_not_finite_gives_nothing(step):
    box = BOX.replace("302     ", f"{step:8}")
    assert read(box) == []
    assert [row[1] for row in read(BOX + box + BOX)] == [302, 302]


def test_numbers_of_boxes_that_are_not_finite_are_read_like_others():
    values = [f"{value:<9}" for value in ("-1.5e-03", "nan", "1e-200", "inf", "1e300", "0.5")]
    boxes = "".join(BOX.replace("-1.5e-03 ", value) for value in values)
    assert [repr(numbers[-1][1]) for _, _, numbers in read(boxes)] == [repr(float(each)) for each in values]


def test_rows_below_a_header_are_read_though_a_cell_is_blank():
    assert read(COLUMNS) == [
        (1, None, [("loss", 0.6851, "train"), ("val_acc", 0.6667, "val"), ("dur", 0.1211, "train")]),
        (2, None, [("loss", 0.6827, "train"), ("val_acc", 0.65, "val"), ("dur", 0.2392, "train")]),
    ]


@pytest.mark.parametrize("separator", [",", " | ", "\t", "   "])
def test_columns_may_have_several_separators(separator):
    text = "".join(f"{separator.join(row)}\n" for row in (("step", "loss", "lr"), ("7", "0.25", "1e-3")))
    assert [(step, numbers[0][1]) for _, step, numbers in read(text)] == [(7, 0.25)]


FRAMED_PAIRS = (
    """\
+-------+------+
| epoch | loss |
+-------+------+
|   1   | 0.25 |
|   2   | 0.5  |
+-------+------+
""",
    """\
┏━━━━━━━┳━━━━━━┓
┃ Epoch ┃ Loss ┃
┡━━━━━━━╇━━━━━━┩
│ 1     │ 0.25 │
│ 2     │ 0.5  │
└───────┴──────┘
""",
)


@pytest.mark.parametrize("text", FRAMED_PAIRS)
def test_two_columns_may_have_a_rule_above_their_names(text):
    assert pairs(text + BOX) == [(1, 0.25), (2, 0.5), (2, 10.8)]


@pytest.mark.parametrize(
    "text",
    [
        "iter  epoch  loss  lr\n10  1  2.5  0.1  33\n",
        "epoch   loss     acc\n3       0.5      0.9   17\n",
        "iter epoch  loss  lr  mem\n100  1  2.5  0.1  33  7\n",
    ],
)
def test_row_with_one_cell_more_than_its_header_is_skipped(text):
    assert read(text) == []


def test_a_row_that_is_drawn_again_gives_its_numbers_once():
    text = "      Epoch    GPU_mem   box_loss       Size\n"
    text += "".join(
        f"        1/3      2.62G      1.133        640: {share}%|█  | {step}/8 [00:01<00:01,  2.9it/s]\n"
        for share, step in ((0, 0), (50, 4))
    )
    assert [(*row[:2], row[2][-1][:2]) for row in read(text)] == [(1, 0, ("box_loss", 1.133))]


@pytest.mark.parametrize(
    "text",
    [
        "NAME    READY   STATUS\ntrain-0   1/1   Running\n",
        "JOBID  PARTITION  TIME\n4242   gpu   1:02:03\n",
        "step  name  status\n1  build  done\n2  test  0.5\n",
        "iteration, updates, error rate and others\n2006, 2008, 2016\n",
        "+-----------+\n| max_steps | -1   |\n| loss      | l2   |\n+-----------+\n",
    ],
)
def test_table_without_metrics_gives_no_numbers(text):
    assert read(text) == []


PAIRS = "epoch   loss\n1       0.5\n2       0.4\n"


@pytest.mark.parametrize(
    "text",
    [
        "Class counts:\n3    500.5\n4    300.5\n",
        "Confusion matrix\n50 3\n52 45\n",
        "gpu   mem\n3   1024\n",
        "Epoch 3: loss 0.3\n7    8.5\n",
        "Resuming from a checkpoint\n" * 30 + "7    8.5\n",
        "50 3.5\n",
        "   12    34\n   56   789\n",
        "\n7    8.5\n",
        "1    0.7\n",
    ],
)
def test_numbers_after_a_table_of_two_columns_are_not_rows_of_it(text):
    assert pairs(PAIRS + text)[:2] == [(1, 0.5), (2, 0.4)]
    assert pairs(PAIRS + text)[2:] == [(3, 0.3)] * ("Epoch" in text)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (
            "| Epoch | Loss |\n|-------|------|\n| 1 | 0.5 |\n",
            "| Port | Pid |\n|------|-----|\n| 8080 | 12.5 |\n",
        ),
        ("epoch,loss\n1,0.5\n", "x,y\n30,4.5\n"),
        ("epoch,loss,acc\n1,0.5,0.9\n", "x,y,z\n30,4.5,5.5\n"),
        ("epoch  loss  acc\n1      0.5   0.9\n", "rank  load  temperature\n30    4.5   5.5\n"),
    ],
)
def test_the_header_of_another_table_ends_the_columns(first, other):
    assert pairs(first + other) == [(1, 0.5)]


@pytest.mark.parametrize("tag", ["", "[1,0]<stdout>:"])
def test_a_rate_in_a_box_is_read_with_and_without_a_tag(tag):
    box = BOX.replace("| time/ ", "| train examples/sec  | 12.5     |\n| time/ ")
    log = "".join(f"{tag}{line}\n" for line in box.splitlines())
    assert [each.value for each in Parser().feed(log.encode()) if each.name == "examples/sec"] == [12.5]


def test_a_line_with_a_frame_ends_a_box_without_one():
    assert pairs("-------  ----\n| loss | 21.7 |\nepoch 1: loss=0.5\nepoch 2: loss=0.25\n") == [
        (1, 0.5),
        (2, 0.25),
    ]


@pytest.mark.parametrize(
    "between",
    [
        "-------  ----\n",
        " 50%|██  | 4/8 [00:01<00:00, 7.0it/s]\n",
        "            \n",
        PAIRS[: PAIRS.index("2")],
    ],
)
def test_rules_bars_and_headers_leave_two_columns_open(between):
    first, last = PAIRS[: PAIRS.index("2")], "2       0.4\n"
    rows = pairs(first + between + last)
    assert (rows[0], rows[-1]) == ((1, 0.5), (2, 0.4))


@pytest.mark.parametrize(
    "header", ["#\tValue", "#\terror", "batch\tvalue", "batch\tthroughput", "Step\tRate", "Step\tMetric"]
)
def test_two_columns_that_may_head_anything_give_nothing(header):
    assert read(f"{header}\n1\t0.5\n2\t0.4\n") == []


def test_a_heading_over_two_lines_has_names_alone():
    assert read("| epoch | 1st | 2nd |\n|  | loss | loss |\n| 1 | 0.5 | 0.25 |\n") == []


TABLES_ABOVE_A_DICT = {
    "a rule": ("-" * 10 + "\n", ""),
    "a row": (COLUMNS, "      3        0.6800       0.6600        0.2400\n"),
    "a row of a placed table": ("Epoch 2\nsplit  loss  acc\ntrain  0.5   0.4\n", "val    0.6   0.4\n"),
    "a line of a box": (BOX[: BOX.index("| train/")], BOX[BOX.index("| train/") :]),
}


@pytest.mark.parametrize("above", TABLES_ABOVE_A_DICT)
def test_a_dict_on_one_line_is_read_below_a_table_that_goes_on(above):
    above, below = TABLES_ABOVE_A_DICT[above]
    printed = "{'epoch': 7, 'iter': 9, 'loss': 0.5}\n"
    rows = read(above + below)
    found = read(above + printed + below)
    assert (7, 9, [("loss", 0.5, "train")]) in found
    assert len(found) == len(rows) + 1
