"""Lines that depend on those above them: in blocks, beside bars, and behind labels that hold for redraws."""

import pytest

from batchai_magics.metrics import Parser
from tests.metrics.log_text import measurements
from tests.metrics.reading.log_parts import LABELS, MEMBER, PREFIXES, TOLD, bar, log_of, parsed, same


def test_indented_lines_right_below_a_step_line_belong_to_that_step():
    text = (
        b"step 5: loss 0.5\n    acc: 0.25\n    time: 0.1\n    f1: 0.75\n"
        b"saved\nnothing\n    recall: 0.1\n"  # too far below
        b"Epoch 2: loss 0.4\n  acc: 0.35\n"
    )
    read = [(record.epoch, record.step, record.name, record.value) for record in Parser().feed(text)]
    assert read == [
        (None, 5, "loss", 0.5),
        (None, 5, "acc", 0.25),
        (None, 5, "f1", 0.75),
        (2, None, "loss", 0.4),
        (2, None, "acc", 0.35),
    ]


@pytest.mark.parametrize(
    "below",
    [
        "  error: 404\n",
        "    score = 7\n    rate: 5\n",
        "  loss: 0.3\n",
        "config:\n  loss: 0.3\n  optimizer:\n    norm: 5\n",
        "  optimizer:\n    norm: 0.5\n",
        "saved\n  acc: 0.5\n",
    ],
)
def test_indented_settings_below_a_step_line_are_not_of_that_step(below):
    log = f"Epoch 1: loss 1.0\n  f1: 0.0\n{below}".encode()
    assert [(record.name, record.value) for record in Parser().feed(log)] == [("loss", 1.0), ("f1", 0.0)]
    alone = f"Epoch 1: loss 1.0\n{below}".encode()
    assert [record.name for record in Parser().feed(alone)] == ["loss"]


def test_indented_lines_below_a_step_line_of_another_process_do_not_belong_to_it():
    text = b"[rank0]: step 5: loss 0.5\n[rank1]:     acc: 0.25\n"
    assert [record.name for record in Parser().feed(text)] == ["loss"]


def test_indented_line_below_a_step_line_of_a_ranks_file_is_read_alike_among_lines_of_others():
    lines = ("[1,0]<stdout>:Epoch 0", "[1,1]<stdout>:hello", "[1,0]<stdout>:step 5: loss 0.5")
    log = "".join(f"{line}\n" for line in (*lines, "[1,0]<stdout>:  acc: 0.25")).encode()
    assert [record.value for record in parsed(log, rank=0)] == [0.5, 0.25]
    same(log, "line", rank=0)


def test_each_of_many_ranks_keeps_its_epoch():
    lines = [f"[rank{rank}]: Epoch {rank % 9}" for rank in range(2000)]
    lines += [f"[rank{rank}]: step {step} loss=0.5" for step in (1, 2) for rank in range(2000)]
    records = Parser().feed("".join(f"{line}\n" for line in lines).encode())
    assert [record.epoch for record in records] == [rank % 9 for _ in range(2) for rank in range(2000)]


@pytest.mark.parametrize("count", [3, 300])
def test_members_of_a_block_have_the_position_above_it(count):
    names = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}x_loss" for n in range(count)]
    log = "".join(f"step {step}\n" + "".join(f"  {name}: 0.5\n" for name in names) for step in (1, 2))
    records = Parser().feed(log.encode())
    assert [(record.name, record.step) for record in records] == [
        (name, step) for step in (1, 2) for name in names
    ]


def epochs(log):
    parser = Parser()
    records = [*parser.feed(log), *parser.finish()]
    return {record.rank: record.epoch for record in records if record.value == 0.5}


def words(rank, count):
    return [(rank, f"some words {number} about nothing") for number in range(count)]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_number_belongs_to_its_heading_across_lines_of_other_processes(prefix):
    for others in (1, 100):
        lines = [(2, TOLD), (0, "Epoch 3/5"), *words(1, others), *words(12, others), (0, MEMBER)]
        assert epochs(log_of(prefix, *lines)) == {0: 3}
        same(log_of(prefix, *lines), "line")


@pytest.mark.parametrize("prefix", PREFIXES)
def test_number_does_not_belong_to_a_heading_above_other_lines_of_its_process(prefix):
    own = [line for number in range(20) for line in (*words(0, 1), *words(1, number % 3))]
    assert 0 not in epochs(log_of(prefix, (2, TOLD), (0, "Epoch 3/5"), *own, (0, MEMBER)))


def test_lines_above_the_first_heading_of_their_process_take_no_position_of_another():
    text = (
        b"5: Epoch 0 loss: 1.5\n6: Epoch 6\n5: Validation rmse = 0.98\n5: Epoch 6\n"
        b"5: Loss = 0.7, PNorm = 41.5\n6: Loss = 1.2, PNorm = 41.2\n"
    )
    one_by_one = Parser()
    lines = [record for line in text.splitlines(keepends=True) for record in one_by_one.feed(line)]
    assert Parser().feed(text) == lines
    assert [(record.rank, record.epoch) for record in lines if record.name == "loss"][-1] == (6, 6)


def test_lines_without_a_prefix_belong_to_no_rank():
    below = b"".join(b"some words about nothing\n" for _ in range(20))
    assert epochs(b"[rank0]: Epoch 3/5\n" + below + b"[rank0]: " + MEMBER.encode() + b"\n") == {}
    assert epochs(b"Epoch 3/5\n" + below + MEMBER.encode() + b"\n") == {}


def test_a_block_ends_after_many_lines_of_other_processes():
    lines = [(0, "Epoch 3/5"), *words(1, 5000), (0, MEMBER)]
    assert epochs(log_of("[rank{}]: ", *lines)) == {}


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_block_may_begin_far_below_one_of_another_process(prefix):
    far = log_of(prefix, (2, TOLD), (0, "Epoch 2/5"), *[(0, "")] * 3000, (1, "Epoch 3/5"))
    below = log_of(prefix, *words(2, 30), (1, MEMBER), *[(2, "")] * 3000)
    assert [record.epoch for record in parsed(far + below) if record.value == 0.5] == [3]
    same(far + below, [len(far)])


COUNTED = "\r 9%|#         | {}/{} [00:02<00:10,  4.19it/s]"


def steps(text, cut=None):
    parser = Parser()
    chunks = [text] if cut is None else [text[:cut], text[cut:]]
    records = [record for chunk in chunks for record in parser.feed(chunk.encode())]
    return [(record.step, record.epoch) for record in (*records, *parser.finish())]


def bars(*counts, total=30):
    return "".join(COUNTED.format(count, total) for count in counts)


def printed(epoch):
    return f"\r        \r{{'loss': 0.5, 'epoch': {epoch}}}\n"


def test_dict_has_the_step_of_the_bar_redrawn_below_it():
    log = bars(0, 3) + printed(0.5) + bars(5, 8) + printed(1.0) + bars(10, 11) + "\n"
    assert steps(log) == [(5, 0.5), (10, 1.0)]
    assert {str(steps(log, cut)) for cut in range(len(log))} == {str(steps(log))}


def test_dict_has_the_step_of_the_bar_above_if_the_next_bar_is_later():
    log = bars(0, 5) + printed(0.5) + bars(6, 7, 10) + printed(1.0) + bars(11, 12, 15) + printed(1.5)
    assert steps(log) == [(5, 0.5), (10, 1.0), (15, 1.5)]


@pytest.mark.parametrize(
    "dicts",
    [  # each with its epoch, the count of the bar above it and below it
        [(1.0, 100, 150), (1.5, 150, 155), (2.0, 200, 300)],  # of 2 or 3 epochs, of 3 as the second tells
        [(0.5, 50, 51), (0.6, 85, 90), (1.0, 100, 150)],  # of 3 epochs, whatever the second tells
    ],
)
def test_step_of_a_dict_counts_the_epochs_of_dicts_above(dicts):
    log = "".join(
        f"{bars(above, total=300)}{printed(epoch)}{bars(below, total=300)}" for epoch, above, below in dicts
    )
    epoch, above, _ = dicts[-1]
    assert steps(log + "\n")[-1] == (above, epoch)


def test_bar_followed_by_text_on_its_line_is_read():
    log = bars(0, 3) + printed(0.5) + bars(5) + "Saving model checkpoint to out\n" + bars(6, 7) + "\n"
    assert steps(log) == [(5, 0.5)]


def test_a_bar_far_below_is_another_step():
    assert steps(bars(0, 5) + printed(0.5) + "\n" * 30 + bars(10, 11) + "\n") == [(5, 0.5)]


@pytest.mark.parametrize("between", ["step 5: loss: 0.4\n", "Epoch 3\n"])
def test_other_lines_do_not_wait_for_a_bar(between):
    assert steps(bars(0, 5) + printed(0.5) + between + bars(9, 10) + "\n")[0] == (5, 0.5)


def drawn(*done, end="\n"):
    return "".join(f"\r{bar(number)}" for number in done) + end


def ranks_of(log):
    parser = Parser()
    records = parser.feed(log.encode()) + parser.finish()
    return {record.step: record.rank for record in measurements(records)}


@pytest.mark.parametrize("label", LABELS)
def test_label_before_a_carriage_return_applies_to_all_draws(label):
    assert ranks_of(label + drawn(1, 2, 3)) == {1: 3, 2: 3, 3: 3}


@pytest.mark.parametrize("prefix", ["2026-03-02T10:25:35.03Z ", "worker-1  | "])
def test_a_collectors_prefix_may_stand_before_the_label(prefix):
    assert ranks_of(prefix + "[rank3]:" + drawn(1, 2)) == {1: 3, 2: 3}


def test_the_first_draw_may_follow_the_label_at_once():
    assert ranks_of(f"[rank3]:{bar(1)}{drawn(2, 3)}") == {1: 3, 2: 3, 3: 3}


def test_a_number_in_brackets_before_text_may_be_a_step_and_gives_no_rank():
    assert ranks_of(f"[3] loading{drawn(2, 3)}") == {2: None, 3: None}


def test_a_label_ends_with_its_line():
    assert ranks_of(f"[rank3]:{drawn(1)}{bar(2)}\n{drawn(3)}") == {1: 3, 2: None, 3: None}


def test_each_ranks_line_has_its_own():
    assert ranks_of(f"3: {drawn(1, 2)}0: {drawn(3, 4)}3: {drawn(5)}") == {1: 3, 2: 3, 3: 0, 4: 0, 5: 3}


@pytest.mark.parametrize("other", ["[rank2]:\r", "\r[rank2]:loading\r", "\r[rank2]:\r"])
def test_draws_after_another_ranks_label_within_the_line_have_no_rank(other):
    ranks = ranks_of(f"[rank3]:{drawn(1, end=f'{chr(13)}text{other}')}{bar(4)}{drawn(5)}")
    assert ranks == {1: 3, 4: None, 5: None}


def test_windows_line_ends_do_not_separate_draws():
    assert ranks_of(f"[rank3]:{bar(1)}\r\n{bar(2)}\r\n") == {1: 3, 2: None}
    assert ranks_of(f"[rank3]:\r\n{bar(2)}\r\n") == {2: None}


def test_rank_of_a_file_takes_precedence_over_labels():
    records = measurements(Parser().feed(f"[rank3]:{drawn(1, 2)}".encode(), rank=7))
    assert [record.rank for record in records] == [7, 7]


def test_ranks_with_labels_of_other_forms_are_read_alike_at_once_and_line_by_line():
    text = (
        b"[alpha:0/2] Epoch 1\n[beta:1/2] Epoch 2\n[beta:1/2] starts\n[beta:1/2] goes on\n[beta:1/2] reads\n"
        b"[alpha:0/2]   f1: 0.75\n[beta:1/2] shuffles\n[alpha:0/2] writes\n[alpha:0/2] x\n[alpha:0/2] y\n"
        b"[beta:1/2]   f1: 0.5\n"
    )
    same(text, "line")
    assert [(each.rank, each.epoch, each.value) for each in Parser().feed(text)] == [(0, 1, 0.75)]


def test_number_of_epochs_learned_from_one_rank_is_not_used_for_another():
    def part(before, epoch, behind):
        drawn = "[rank{}]: {:3d}%|###   | {}/30 [00:01<00:09,  2.00it/s]\n"
        printed = f"[rank{{}}]: {{{{'loss': 0.5, 'learning_rate': 5e-05, 'epoch': {epoch}}}}}\n"
        forms = [drawn.format("{0}", 0, before), printed, drawn.format("{0}", 0, behind)]
        return "".join(form.format(rank) for form in forms for rank in (0, 1))

    text = (part(5, 1.0, 10) + part(10, 2.0, 10)).encode()  # the second alone tells that there are 6 epochs
    same(text, "line")
    assert [record.step for record in Parser().feed(text) if record.name == "loss"] == [10] * 4


@pytest.mark.parametrize("end", ["", "\x1b[A", "\n"])
def test_the_last_bar_is_read_without_a_newline_if_it_is_closed(end):
    form = "\rB: 50%|##  | {}/4 [00:01<00:01, 9.0it/s, loss={}"
    closed = f"{form.format(3, 0.7)}]{form.format(4, 0.6)}]{end}".encode()
    assert [(each.step, each.value) for each in measurements(parsed(closed))] == [(3, 0.7), (4, 0.6)]
    cut = f"{form.format(3, 0.7)}]{form.format(4, 0.6)}".encode()  # of 0.63, perhaps
    assert [each.value for each in measurements(parsed(cut))] == [0.7]


BOX = (
    "---------------------------------\n"
    "| rollout/           |          |\n"
    "|    ep_rew_mean     | {reward:<8} |\n"
    "| time/              |          |\n"
    "|    total_timesteps | {step:<8} |\n"
    "| train/             |          |\n"
    "|    loss            | {loss:<8} |\n"
    "---------------------------------\n"
)
ROWS = {
    "fastai": "epoch     train_loss  valid_loss  time    \n{epoch:<10}{loss:<12}{other:<12}00:10     ",
    "csv": "epoch,train_loss,val_loss,lr\n{epoch},{loss},{other},1e-05",
    "framed": "| epoch | train loss | val loss |\n| {epoch:>5} | {loss:>10} | {other:>8} |",
    "by split": "epoch  split  loss  acc\n{epoch}  val  {loss}  {other}",
}
NUMBERS = ("0.5", "12.25", "nan", "-3", "1e-05", "1,024", "0.5K", "[0.1, 0.2]", "word", "5.", "-inf")


def rows_of(name):
    """The header of a table, and rows with numbers of every kind."""
    header, row = ROWS[name].split("\n")
    pairs = [*zip(NUMBERS, NUMBERS[3:] + NUMBERS[:3], strict=True), ("0.5", "0.25")] * 2
    rows = [row.format(epoch=epoch, loss=loss, other=other) for epoch, (loss, other) in enumerate(pairs)]
    return f"{header}\n", [f"{row}\n" for row in rows]


def values(log):
    return [(each.name, repr(each.value), each.phase, each.step, each.epoch) for each in parsed(log.encode())]


@pytest.mark.parametrize("name", ROWS)
def test_rows_like_those_above_give_what_each_gives_alone(name):
    header, rows = rows_of(name)
    alone = [value for row in rows for value in values(header + row)]
    assert len(alone) > len(rows)
    assert values(header + "".join(rows)) == alone
    same((header + "".join(rows)).encode(), "line")


@pytest.mark.parametrize("edge", ["", "---------------------------------\n"])
def test_boxes_like_those_above_give_what_each_gives_alone(edge):
    boxes = [
        BOX.format(step=step, reward=reward, loss=loss)
        for step, (reward, loss) in enumerate(zip(NUMBERS, NUMBERS[3:] + NUMBERS[:3], strict=True))
    ]
    log = "".join(box + edge + box.replace("loss ", "kl   ") for box in boxes)
    alone = [value for box in boxes for value in values(box) + values(box.replace("loss ", "kl   "))]
    assert len(alone) > len(boxes)
    assert values(log) == alone
    same(log.encode(), "line")


PERIODS = {
    "numbers below a step": "step {n}: loss 0.{n}\n    eval_loss: 0.{n} eval_acc: 0.5\n",
    "members": "step {n}\n  a_loss: 0.{n}\n  b_loss: 1.{n}\n\n",
    "epochs above": "Epoch {n}/9\nloss: 0.{n} acc: 0.5\nsaved\n",
    "an epoch taken from above": "epoch {n} step {n} loss=0.{n}\nstep {n} val_loss=0.5\n",
    "an epoch taken from far above": "step {n} loss=0.{n}\nstep {n}: lr 0.5 grad_norm 0.{n}\n",
    "phases": "Epoch {n}\nloss: 0.{n} acc: 0.5\nValidation:\nloss: 0.{n} acc: 0.25\n",
    "rules": "Epoch {n}/9\n----------\ntrain Loss: 0.{n} Acc: 0.5\nval Loss: 0.5 Acc: 0.25\n\n",
    "rules above rows": "Epoch {n}\n----------\nloss: 0.{n}\n----------\n| loss | 1.{n} |\n----------\n",
    "rules above ranks": "Epoch {n}\n----------\n[rank1]: Epoch {n} acc: 0.{n}\n| loss | 0.{n} |\n--------\n",
    "a phase that changes names": "epoch {n} step 5 loss=0.{n}\nTest set:\nloss: 0.5, acc: 0.{n}\n",
    "twins": "Epoch {n}\nVal loss: 0.5312\nl1: 0.312 kl: 0.022 loss: 0.531\nl1: 0.1 kl: 0.{n} loss: 0.9\n",
    "redrawn elsewhere": "Epoch {n} / 99\n10ms 5us/step - acc=0.{n} loss=0.5\n",
    "redrawn at the same place": "Epoch 3 / 99\n10ms 5us/step - acc=0.{n} loss=0.5\n",
    "headings of one epoch": "Validation:\n[Epoch: 4, numImages: 400]\nloss: 0.{n} acc: 0.5\n",
    "below a step, farther": "step {n}: loss 0.5\n  f1: 0.{n}\n  saved: 0.5 of all\n  acc: 0.5\n",
}


@pytest.mark.parametrize(
    "above", ["", "Epoch 2\n", "step 3: loss 0.5\nValidation:\n", "epoch 1 step 1 loss=2\n"]
)
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("name", PERIODS)
def test_lines_that_repeat_are_placed_alike_at_once_and_line_by_line(name, size, above):
    periods = [PERIODS[name].format(n=10 + number // size) for number in range(110)]
    log = f"{above}{''.join(periods[:100])}loss: 0.75\nacc: 0.75\n{''.join(periods[100:])}".encode()
    assert len(parsed(log)) > 10 or "\n\n" in name
    same(log, "line")
    same(log, "line", rank=3)


def test_numbers_of_lines_that_repeat_have_the_positions_of_their_own_period():
    log = "".join(f"step {step}: loss 0.5\n    eval_loss: {step}.5 eval_acc: 0.5\n" for step in range(99))
    found = [(each.step, each.value) for each in parsed(log.encode()) if each.name == "val_loss"]
    assert found == [(step, step + 0.5) for step in range(99)]


def test_total_of_each_line_tells_which_of_two_counts_is_its_step():
    lines = [f"step [{step}/{total}] step [7/8] loss: 0.5\n" for step, total in ((5, 6), (3, 9), (4, 6))]
    for order in (lines, lines[::-1]):
        records = measurements(Parser().feed("".join(order).encode()))
        assert [record.step for record in records] == [3 if "/9" in line else 7 for line in order]


def test_dicts_below_a_rule_are_read_alike_at_once_and_line_by_line():
    """One on a line of its own may be one that goes on below."""
    dicts = [f"{{'epoch': 0, 'iter': {place}, 'loss': 0.{place}}}\n" for place in range(1, 9)]
    same(f"{dicts[0]}----------\n{''.join(dicts[1:])}".encode(), "line")
