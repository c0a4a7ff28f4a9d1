"""The summary of a run: its header, speed, stragglers, losses and metrics; and its frame."""

import json
import random
import tracemalloc

import pytest

from batchai_magics.metrics import (
    LossTrend,
    Measurement,
    Summary,
    frame,
    read_metrics,
    summarize,
)
from batchai_magics.metrics.runs.run_metrics import RunMetrics
from tests.metrics.log_text import HEADER, run, step, step_numbers, total


def records(text):
    return read_metrics(text.encode()).records


def summary(text):
    return summarize(records(text))


def tagged(rates, steps=(1, 10, 20), header=HEADER):
    lines = [f"[1,{rank}]<stdout>:{line}" for rank in rates for line in header.splitlines()]
    lines += [f"[1,{rank}]<stdout>:{step(number, rate)}" for number in steps for rank, rate in rates.items()]
    return "".join(f"{line}\n" for line in lines)


class TestFrame:
    def test_a_row_is_a_step_line_in_file_order(self):
        table = frame(records(run(ranks=2)))
        assert list(table.columns) == ["step", "images_per_sec", "uncertainty", "jitter", "loss"]
        assert table["step"].tolist() == [1, 1, 10, 10, 20, 20]
        assert list(frame(records("Epoch 1: loss=0.5\n"))) == ["epoch", "loss"]

    def test_unknown_rank_is_missing_and_known_rank_is_an_integer(self):
        table = frame(records(f"{step(1)}\n[1,3]<stdout>:{step(1)}\n"))
        assert str(table["rank"].dtype) == "Int64"
        assert table["rank"].isna().tolist() == [True, False]
        assert table["rank"].iloc[1] == 3

    def test_no_records_give_an_empty_frame_with_columns_for_positions(self):
        empty = frame([])
        assert len(empty) == 0
        assert [*empty.dtypes.astype(str).items()] == [(name, "Int64") for name in ("step", "rank", "epoch")]

    def test_frame_has_rows_for_lines_without_a_step(self):
        table = frame(records(f"{step(1)}\nAccuracy @ 1 = 0.5000 Accuracy @ 5 = 0.7500 [640 examples]\n"))
        assert table["step"].isna().tolist() == [False, True]
        assert table["eval_top_5"].iloc[1] == 0.75


class TestSummary:
    @pytest.mark.parametrize(
        ("losses", "text"),
        [
            ((1.0, 0.00001), "1 to 1e-05"),
            ((0.12345, 0.0004, 0.0123), "0.1235 to 0.0123, best 0.0004 at step 2"),
        ],
    )
    def test_a_small_loss_is_not_rounded_to_zero(self, losses, text):
        lines = "".join(f"step {step} loss {loss:.8f}\n" for step, loss in enumerate(losses, 1))
        rows = dict(row.split(maxsplit=1) for row in str(summary(lines)).splitlines())
        assert rows["loss"] == text

    def test_steps_of_a_progress_bar_are_the_displayed_ones_not_its_line_count(self):
        places = [(n, n + part) for n in range(0, 20, 2) for part in (0.25, 0.5)]
        bar = "".join(f"Epoch 0: {n}/20 [00:01<00:02, 9.1it/s, loss={loss}]\r" for n, loss in places)
        assert summary(f"{bar}\n{bar.replace('Epoch 0', 'Epoch 1')}\n").steps == 39

    def test_steps_after_the_last_loss_that_have_a_rate_are_counted(self):
        rates = "".join(f"step {n}: images/sec: 100\n" for n in range(10, 200, 10))
        assert summary(f"{rates}step 100: loss 0.5\n").steps == 190

    @pytest.mark.parametrize(
        ("epochs", "count"), [((1, 2, 3), 3), ((0, 1, 2), 3), ((1, 1, 2, 2), 2), ((0.0, 0.5, 2.5), 3)]
    )
    def test_epochs_are_counted_where_the_log_tells_no_steps(self, epochs, count):
        told = summary("".join(f"epoch {epoch} loss {0.9 - epoch / 9:.2f}\n" for epoch in epochs))
        rows = dict(row.split(maxsplit=1) for row in str(told).splitlines())
        assert (told.steps, rows["epochs"]) == (count, str(count))
        assert "steps" not in rows

    def test_summary_has_the_parameters_of_the_header(self):
        result = summary(run(ranks=4))
        assert (result.model, result.dataset, result.variable_update) == (
            "resnet50",
            "imagenet (synthetic)",
            "horovod",
        )
        assert (result.batch_size_global, result.batch_size_per_device, result.device_count) == (128, 32, 4)

    def test_global_rate_is_neither_summed_nor_assigned_to_a_rank(self):
        header = HEADER.replace("horovod/", "/").replace("horovod", "distributed_all_reduce")
        result = summary(tagged({0: 100, 1: 50}, header=header))
        assert (result.images_per_sec, result.rates, result.skew, result.stragglers) == (75, {}, None, ())

    def test_rank_that_starts_after_another_ended_belongs_to_the_same_run(self):
        buffered = [f"{run(steps=(1, 10))}".splitlines() for _ in range(2)]
        lines = [f"[1,{rank}]<stdout>:{line}\n" for rank, part in enumerate(buffered) for line in part]
        assert set(summary("".join(lines)).rates) == {0, 1}

    def test_unknown_ranks_are_distinguished_by_repeated_steps(self):
        result = summary(run(ranks=4))
        assert (result.ranks, dict(result.rates)) == (4, {0: 100, 1: 101, 2: 102, 3: 103})

    def test_buffered_ranks_that_print_one_after_the_other_are_one_run(self):
        header = HEADER.replace(", 'horovod/gpu:2', 'horovod/gpu:3'", "")
        result = summary(run(header=header, rate=100) + run(header=header, rate=110))
        assert (result.ranks, result.images_per_sec, result.total_images_per_sec) == (2, 210, 110)

    def test_last_of_several_runs_is_summarized(self):
        first, second = run(ranks=4, rate=50), run(ranks=4, rate=100).replace("resnet50", "vgg16")
        result = summary(first + second)
        assert (result.model, result.ranks, result.total_images_per_sec) == ("vgg16", 4, 400)

    def test_an_empty_log_has_an_empty_summary(self):
        assert summary("") == Summary(rates={})


class TestMeaning:
    def test_the_steady_speed_of_all_ranks_adds_up_with_its_error_and_jitter(self):
        steady = summary(tagged({0: 100, 1: 90, 2: 95, 3: 80})).steady
        assert (steady.images_per_sec, steady.uncertainty, steady.jitter) == (365, 4 * 1.8, 4 * 8.0)
        result = summary(tagged({0: 100, 1: 90, 2: 95, 3: 80}))
        assert (result.images_per_sec, result.per_process, result.per_device) == (365, 365 / 4, 365 / 4)

    def test_rates_since_the_line_before_have_the_standard_error_of_their_mean(self):
        rates = enumerate((100, 300, 100, 300), 1)
        lines = (f'{{"step": {at}, "images_per_sec": {rate}}}\n' for at, rate in rates)
        steady = summary("".join(lines)).steady
        assert (steady.images_per_sec, steady.uncertainty) == pytest.approx((150, 50))

    def test_speed_of_the_only_visible_rank_is_scaled_to_all(self):
        assert str(summary(tagged({0: 100})).steady) == "400.0 ± 7.2 (jitter 32.0)"

    def test_the_warm_up_is_left_out_of_the_steady_speed_and_of_the_ranks(self):
        times = [5, 4, *[1] * 18]
        rates = [10 * (i + 1) / sum(times[: i + 1]) * 100 for i in range(20)]
        result = summary("".join(step(10 * (i + 1), rate) + "\n" for i, rate in enumerate(rates)))
        assert result.steady.images_per_sec == pytest.approx(1000, rel=0.001)
        assert (result.rates[0], result.warm_up_steps) == (result.steady.images_per_sec, 20)
        assert result.images_per_sec == pytest.approx(200 * 100 / 27, abs=0.1)
        assert "to step 20, left out" in str(result)
        assert repr(result) == str(result)

    def test_a_process_with_several_devices_has_a_rate_for_each(self):
        header = HEADER.replace("horovod/", "/").replace("horovod", "replicated")
        result = summary(tagged({0: 100}, header=header))
        assert (result.ranks, result.per_process, result.per_device) == (1, 100, 25)

    def test_rates_per_node_need_the_nodes_of_ranks(self):
        found = records(tagged({0: 100, 1: 90, 2: 95, 3: 80}))
        nodes = {0: "node-0", 1: "node-0", 2: "node-1", 3: "node-1"}
        assert summarize(found, nodes=nodes).per_node == {"node-0": 190, "node-1": 175}
        assert summarize(found).per_node is None

    @pytest.mark.parametrize(
        ("log", "per_node"),
        [
            ("total images/sec: 400.00\n", {"node-0": 200, "node-1": 200}),
            (tagged({0: 100}) + "total images/sec: 370.00\n", {"node-0": 190, "node-1": 180}),
            (tagged({0: 100}), {"node-0": 200, "node-1": 200}),
            (
                tagged({0: 100, 1: 90, 2: 95, 3: 80}) + "total images/sec: 999.00\n",
                {"node-0": 190, "node-1": 175},
            ),
            (tagged({0: 100}, header=""), {"node-0": 100}),
        ],
    )
    def test_ranks_without_a_rate_share_the_printed_total(self, log, per_node):
        nodes = {0: "node-0", 1: "node-0", 2: "node-1", 3: "node-1"}
        assert summarize(records(log), nodes=nodes).per_node == pytest.approx(per_node)

    def test_rate_printed_by_one_process_is_the_whole_ended_jobs(self):
        found, nodes = records(tagged({0: 100}, header="")), {0: "a", 1: "a", 2: "b", 3: "b"}
        result = summarize(found, nodes=nodes, processes=4)
        assert (result.ranks, result.per_process, result.rates) == (4, 25, {0: 100})
        assert result.per_node == {"a": 50, "b": 50}
        assert "25.0 per process" in str(result)
        running = summarize(found, processes=4, is_running=True)
        assert (running.ranks, running.steady, running.per_process) == (4, result.steady, None)

    def test_summary_omits_processes_if_the_log_has_no_number_of_them(self):
        text = str(summary(tagged({0: 100}, header="")))
        assert "steady images/sec" in text
        assert "process" not in text

    def test_all_stragglers_are_named_the_slowest_first(self):
        result = summary(tagged({0: 100, 1: 80, 2: 101, 3: 60, 4: 99}, steps=range(10, 70, 10)))
        assert (result.stragglers, result.ranks) == ((3, 1), 5)  # more than were promised
        assert result.skew == pytest.approx(41 / 88)
        assert "rank 3 (60.0), rank 1 (80.0)" in str(result)

    def test_devices_of_all_workers_are_counted_once(self):
        header = HEADER.replace("horovod/gpu:0', 'horovod/gpu:1', 'horovod/gpu:2', 'horovod/gpu:3", "{}")
        lines = [header.format(f"/job:worker/task:{rank}/gpu:0") for rank in (0, 1, 1)]
        assert summary("".join(lines)).devices == ("/job:worker/task:0/gpu:0", "/job:worker/task:1/gpu:0")


def independent(rates, totals):
    lines = [f"[1,{rank}]<stdout>:{step(n, rate)}" for n in (10, 20, 30) for rank, rate in enumerate(rates)]
    return "\n".join([*lines, *(f"[1,{rank}]<stdout>:{total(rate)}" for rank, rate in enumerate(totals)), ""])


def test_the_total_of_one_of_several_ranks_is_labelled_with_it():
    found = summary(independent([700] * 4, [701, 702, 703, 706.21]))
    assert (found.is_total_of_one_rank, found.total_rank) == (True, 3)
    assert "706.21 of rank 3 alone" in str(found)
    assert found.metric("images/sec").headline_value == 2800
    assert summary(independent([700] * 2, [702, 706])).is_total_of_one_rank
    assert not summary(
        f"{tagged({0: 100})}{total(100)}\n"
    ).is_total_of_one_rank  # no other rank to compare with


@pytest.mark.parametrize(
    ("log", "shown", "last"),
    [
        (independent([700] * 2, [702, 706]), 1400, 1400),  # not the total of one rank alone
        (independent([700] * 4, [2795.5] * 4), 2795.5, 2800),
        (tagged({0: 100}), 400, 400),  # of four ranks, one of which is in the log
    ],
)
def test_lists_and_cards_show_the_images_per_second_of_the_summary(log, shown, last):
    listed = RunMetrics(records(log))["images_per_sec"].summary
    assert (listed.headline_value, listed.last) == (shown, last)
    assert summary(log).metric("images/sec") == listed


def test_a_total_that_all_ranks_share_has_no_label():
    found = summary(independent([700] * 4, [2795.5] * 4))
    assert not found.is_total_of_one_rank
    assert "2,795.50" in str(found)
    assert "alone" not in str(found)
    assert found.metric("images/sec").headline_value == 2795.5


def test_the_summary_has_the_figures_of_every_metric_headline_first():
    text = "".join(f"step {n}: loss 1.5, val_loss {value}, lr 0.1\n" for n, value in ((1, 0.25), (2, 0.5)))
    found = summary(text)
    assert [metric.name for metric in found.metrics] == ["val_loss", "loss", "lr"]
    assert found.headline.name == "val_loss"
    assert found.metric("val_loss").best_step == 1
    assert "0.5 (best 0.25 at step 1)" in str(found)
    assert "val_loss" in found._repr_html_()


def test_summary_is_convertible_to_json_and_html():
    log = (
        tagged({0: 100, 1: 60}) + f"{step(30, loss='nan', accuracies=chr(9) + '0.125' + chr(9) + '0.500')}\n"
    )
    found = summary(log.replace("resnet50", "<b>"))
    assert "&lt;b&gt;" in found._repr_html_()
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert list(told["steady"]) == ["images_per_sec", "uncertainty", "jitter"]
    assert (told["rates"].keys(), told["stragglers"], told["loss_trend"]) == ({"0", "1"}, [1], None)
    assert (told["headline"], told["has_nan"]) == ("loss", True)
    (loss,) = [metric for metric in told["metrics"] if metric["name"] == "loss"]
    assert (loss["last"], loss["best"], loss["direction"]) == ("NaN", 7.087, "falls")
    assert found.metric("top_1").best == 0.125


def test_a_summary_needs_less_memory_than_an_object_for_each_line():
    log = "\n".join(step(number, rate=number % 97, loss=f"{1 / number:.3f}") for number in range(1, 5001))
    table = read_metrics(log.encode()).table
    summarize(table)  # what has to be imported is imported
    tracemalloc.start()
    try:
        summarize(table)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes / 5000 < 60


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 0.18 samples/sec: inf\nstep 2 loss 0.1 samples/sec: 5.0\n",
        '{"step": 1, "devices": NaN, "loss": 1}\n{"step": 2, "devices": Infinity, "loss": 1}\n',
        "".join(
            f"[1,{rank}]<stdout>:step {step} loss 0.5 samples/sec: {rate}\n"
            for step in range(1, 60)
            for rank, rate in enumerate(("0.80", "0.90"))
        ),
    ],
)
def test_unusual_rates_and_counts_give_a_summary(text):
    assert summary(text).metrics


def trend(losses):
    return summarize([Measurement("loss", float(loss), step=n) for n, loss in enumerate(losses)]).loss_trend


noise = random.Random(1)


@pytest.mark.parametrize(
    ("losses", "direction"),
    [
        ([3 - n / 50 + noise.gauss(0, 0.3) for n in range(50)], LossTrend.FALLING),
        ([noise.gauss(0, 1) - n / 2000 for n in range(10_000)], LossTrend.FALLING),
        ([7.0, 4.0, 3.0, 2.5, 2.3, 2.2, 2.2, 2.2], LossTrend.FALLING),
        ([1.0, 1.1, 1.3, 1.2, 1.5, 1.9], LossTrend.RISING),
        ([0.0] * 10, LossTrend.FLAT),
        ([2.0, 2.2] * 10, LossTrend.FLAT),
        ([6, 5, 3, 4, 1, 2], LossTrend.FLAT),  # by chance, with the correction for whole pairs
        ([6, 5, 4, 3, 1, 2], LossTrend.FALLING),
        ([4.0, 3.0, 2.0, 1.0, float("nan"), float("inf")], None),
    ],
    ids=["noisy", "many", "level", "climb", "still", "nowhere", "chance", "no chance", "too few"],
)
def test_loss_trend_is_reported_only_if_it_is_significant(losses, direction):
    assert trend(losses) == direction


def test_loss_at_a_step_is_the_mean_over_ranks():
    lines = [*step_numbers(10, 0, loss=1.0), *step_numbers(10, 1, loss=2.0)]
    assert summarize(lines).last_loss == 1.5
