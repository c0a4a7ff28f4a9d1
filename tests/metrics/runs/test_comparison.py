import pytest

from batchai_magics.errors import UsageError
from batchai_magics.metrics import compare, read_metrics
from batchai_magics.metrics.charts.comparison_chart import NOTHING
from batchai_magics.metrics.runs.metric_traits import MetricPreferences
from tests.metrics.log_text import run, step
from tests.metrics.runs.scaling_logs import Handle, log


def write(folder, name, text=None):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or run(ranks=2))
    return path


def test_a_row_is_a_run_and_its_index_the_name():
    table = compare({"old": log(1, 100), "new": log(4, 90)}).frame()
    assert table.index.tolist() == ["old", "new"]
    assert table["images_per_sec"].tolist() == [100, 360]
    assert table["speedup"].tolist() == [1.0, 3.6]
    assert table["processes"].tolist() == [1, 4]
    assert table["loss_trend"].tolist() == ["falling", "falling"]


def test_rate_printed_by_rank_0_alone_counts_for_all_processes_of_the_job():
    lines = "".join(f"step {n} loss 1 images/sec 100\n" for n in range(1, 9))
    job = Handle("job", read_metrics(lines.encode()))
    job.process_count = lambda: 4
    row = compare([job]).frame().loc["job"]
    assert (row["processes"], row["images_per_sec"], row["per_process"]) == (4, 100, 25)


def test_jobs_logs_and_paths_are_compared_together(tmp_path):
    path = write(tmp_path, "a.log")
    runs = compare([Handle("job", log(1, 50)), log(2, 50), path, str(path)]).runs
    assert [each.name for each in runs] == ["job", "log 2", "a", "a (2)"]


def test_logs_of_the_same_name_are_distinguished_by_their_folders(tmp_path):
    paths = [write(tmp_path, f"{name}/stdouterr/stdout.txt") for name in ("one", "two")]
    assert [each.name for each in compare(paths).runs] == ["one/stdouterr/stdout", "two/stdouterr/stdout"]


@pytest.mark.parametrize("wrong", [[], "a.log", {}, [3], log(1, 1)])
def test_comparison_of_anything_but_a_list_of_runs_is_refused(wrong):
    with pytest.raises(UsageError):
        compare(wrong)


def test_the_chart_has_a_line_a_run_in_each_panel():
    ax = compare({"one": log(1, 100), "four": log(4, 90)}).plot()
    losses, rates = ax.figure.axes
    assert [line.get_label() for line in rates.lines] == ["one", "four"]
    assert list(rates.lines[1].get_ydata()) == [360] * 5
    assert (rates.get_ylabel(), losses.get_ylabel()) == ("images/sec, all processes", "loss")


def test_rates_of_single_lines_are_drawn_as_printed_and_summed_over_ranks():
    form = '{{"rank": {}, "step": {}, "images_per_sec": {}}}\n'
    text = "".join(form.format(rank, step, 100 * step + rank) for step in (1, 2, 3) for rank in (0, 1))
    (line,) = compare([read_metrics(text.encode())]).plot().lines
    assert line.get_xydata().tolist() == [[1, 201], [2, 401], [3, 601]]


def keras(factor):
    line = "epoch={0} step={0}0 loss={1} lr=0.1\nepoch={0} val_loss={2} val_acc=0.{0}\n"
    text = "".join(line.format(n, factor / n, 2 * factor / n) for n in (1, 2))
    return read_metrics(text.encode())


def test_the_chart_of_values_without_a_position_is_not_over_steps():
    results = {
        name: read_metrics(f"Accuracy: {value}\n".encode()) for name, value in (("a", 0.9), ("b", 0.8))
    }
    assert compare(results).plot().get_xlabel() == "value"
    assert compare({**results, "c": read_metrics(b"step 3: accuracy 0.5\n")}).plot().get_xlabel() == "step"


def test_every_metric_of_the_runs_is_compared_and_the_best_value_marked_where_they_differ():
    sources = {"one": keras(1), "two": keras(2), "tf": log(1, 10)}
    table = compare(sources).frame()
    assert table["val_loss"].tolist()[:2] == [1, 2]
    assert table["best_val_acc"].tolist()[:2] == [0.2, 0.2]
    assert table["lr"].isna().tolist() == [False, False, True]
    assert table["images_per_sec"].isna().tolist() == [True, True, False]
    del sources["tf"]
    found = compare(sources)
    assert found.metric_names[:2] == ("val_loss", "best_val_loss")
    assert [(each.name, found.best_run(each)) for each in found.traits] == [
        ("val_loss", 0), ("loss", 0), ("val_acc", None), ("lr", None)
    ]  # fmt: skip
    html = found._repr_html_()
    assert html.index("val_loss</th>") < html.index("val_acc</th>")
    assert "1 ★" in html
    assert "2 ★" not in html
    rising = compare(sources, preferences=MetricPreferences("val_acc", rising=["val_loss"]))
    assert (rising.metric_names[0], rising.plot().get_ylabel()) == ("val_acc", "val_acc")
    assert rising.runs[0].summary.headline.name == "val_acc"
    assert rising.best_run(next(each for each in rising.traits if each.name == "val_loss")) == 1


def test_table_has_a_row_per_run_and_a_caption_with_common_values():
    long = "a-run-with-a-very-long-name-that-nobody-<wants>-to-type"
    found = compare({"one": log(1, 100), long: log(1, 90)})
    caption, head, *rows = repr(found).splitlines()
    assert caption.startswith("model resnet50, dataset imagenet (synthetic), processes 1, ")
    assert (head.split()[0], [row.split()[0] for row in rows]) == ("run", ["one", long])
    shown = found._repr_html_()
    assert caption in shown
    assert f">{long.replace('<', '&lt;').replace('>', '&gt;')}</th>" in shown
    assert shown.count("<tr>") == 3


def test_a_chart_of_some_metrics_has_these_panels_only():
    found = compare({"one": keras(1), "two": keras(2)})
    assert [ax.get_ylabel() for ax in found.plot(metrics="val_acc").figure.axes] == ["val_acc"]
    with pytest.raises(UsageError, match="no run has the metric 'bleu'"):
        found.plot(metrics=["bleu"])


def spelt(text):
    return read_metrics("".join(f"{text} step={n}\n".format(1 / n, 2 / n) for n in (1, 2, 3)).encode())


SPELLINGS = {
    "plain": spelt("loss={} val_loss={}"),
    "hf": spelt("train_loss={} eval_loss={}"),
    "tags": spelt("train/loss={} val/loss={}"),
}


def test_a_metric_is_one_column_and_one_chart_however_runs_spell_it():
    found = compare(SPELLINGS)
    table = found.frame()
    assert [each.name for each in found.traits] == ["val_loss", "loss"]
    assert table["last_loss"].tolist() == pytest.approx([1 / 3] * 3)
    assert table["best_val_loss"].tolist() == pytest.approx([2 / 3] * 3)
    assert "eval_loss" not in found._repr_html_()
    (losses,) = found.plot().figure.axes
    assert [len(line.get_xdata()) for line in losses.lines] == [3] * 6


def test_a_metric_has_the_spelling_of_the_baseline():
    plain, tags = (SPELLINGS[name] for name in ("plain", "tags"))
    found = compare([Handle("plain", plain), Handle("tags", tags, "baseline")])
    assert [each.name for each in found.traits] == ["val_loss", "train/loss"]
    assert found.frame()["train/loss"].tolist() == pytest.approx([1 / 3] * 2)


def test_two_metrics_of_a_run_stay_separate_if_another_run_has_one_of_them():
    trainer = spelt("loss={} train_loss={}")
    found = compare({"one": SPELLINGS["plain"], "trainer": trainer})
    assert [each.name for each in found.traits] == ["val_loss", "loss", "train_loss"]
    assert found.frame()["train_loss"].isna().tolist() == [True, False]


def horovod(totals):
    steps = [f"[1,{rank}]<stdout>:{step(n, 100)}" for n in (10, 20, 30) for rank in range(4)]
    last = [f"[1,{rank}]<stdout>:total images/sec: {total:.2f}" for rank, total in enumerate(totals)]
    return read_metrics("\n".join([*steps, *last, ""]).encode())


def test_a_total_of_one_rank_alone_is_labelled_with_it():
    found = compare({"alone": horovod([101, 102, 103, 104]), "shared": horovod([399] * 4)})
    assert found.frame()["total_of"].tolist() == ["rank 3", ""]
    for text in (repr(found), found._repr_html_()):
        assert "104.0 of rank 3" in text
        assert "399.0 of" not in text


def test_training_and_validation_of_all_runs_are_one_panel():
    loss, *others = compare({"one": keras(1), "two": keras(2)}).plot().figure.axes
    assert loss.get_ylabel() == "loss (val dotted)"
    assert [line.get_ydata()[-1] for line in loss.lines] == [0.5, 1, 1, 2]
    assert [ax.get_ylabel() for ax in others] == ["val_acc", "lr"]


def test_runs_of_different_batch_sizes_are_comparable_over_seconds_and_images():
    compared = compare([log(1, 100), log(4, 80)])
    ends = {"step": [40, 40], "images": [40 * 32, 40 * 128], "seconds": [40 * 32 / 100, 40 * 32 / 80]}
    for over, last in ends.items():
        assert [line.get_xdata()[-1] for line in compared.plot(over=over).lines] == last
    over_epochs = compare({"one": keras(1)}).plot(over="epoch", metrics="loss")
    assert list(over_epochs.lines[0].get_xdata()) == [1, 2]
    with pytest.raises(UsageError, match="step, epoch, time, images, seconds"):
        compared.plot(over="hours")


def test_a_run_without_a_batch_size_can_only_be_drawn_over_steps():
    compared = compare([read_metrics(b"1\timages/sec: 1.0 +/- 0.0 (jitter = 0.0)\t1.000\n")])
    assert len(compared.plot().lines) == 1
    with pytest.raises(UsageError, match="no batch size"):
        compared.plot(over="images")


def test_run_without_numbers_is_not_in_the_legend_and_shows_a_message_if_alone():
    ax = compare([read_metrics(b"")]).plot()
    assert [words.get_text() for words in ax.texts] == [NOTHING]
    beside = compare({"silent": read_metrics(b""), "one": log(1, 10)})
    assert beside.frame()["images_per_sec"].isna().tolist() == [True, False]
    assert [text.get_text() for text in beside.plot().figure.legends[0].get_texts()] == ["one"]


def test_running_job_is_distinguished_from_ended_one():
    ended, running = Handle("a", log(1, 50)), Handle("b", log(2, 50), is_done=False)
    assert [run.is_running for run in compare([ended, running]).runs] == [False, True]
    assert compare([ended, running]).is_running
    assert not compare([ended, log(1, 1)]).is_running


def test_legend_above_the_lines_names_24_runs_and_counts_the_others():
    ax = compare({f"run-{number}": keras(number) for number in range(1, 31)}).plot()
    (legend,) = ax.figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert (len(names), names[-1]) == (24, "run-24 … 6 more")
    ax.figure.draw_without_rendering()
    assert legend.get_window_extent().y0 >= ax.get_window_extent().y1


def test_parameters_that_differ_are_columns_and_rows():
    records = log(1, 100)
    runs = [
        Handle("a", records, lr=0.1, seed=1, model="x"),
        Handle("b", records, lr=0.5, seed=1, model="y"),
    ]
    found = compare([*runs, Handle("c", records)])
    assert list(found.parameters.items()) == [("lr", "lr"), ("--model", "model")]
    assert [row["lr"] for row in found.rows()] == [0.1, 0.5, None]
    assert list(found.frame()["--model"])[:2] == ["x", "y"]
    cells = found._repr_html_().split("<tr>")
    assert cells[1].index(">lr</th>") < cells[1].index(">loss</th>")
    assert ">0.5</td>" in cells[3]


def test_runs_are_compared_with_the_baseline_where_one_is():
    slow, fast = log(1, 100), log(1, 200)
    assert [row["speedup"] for row in compare([Handle("a", slow), Handle("b", fast)]).rows()] == [1.0, 2.0]
    pinned = compare([Handle("a", slow), Handle("b", fast, "baseline")])
    assert [row["speedup"] for row in pinned.rows()] == [0.5, 1.0]


def test_runs_of_seeds_are_grouped_by_sweep_and_compared_with_the_baseline():
    def handle(sweep, seed, rate, *tags):
        return Handle(f"{sweep}-t{seed + 1}", log(1, rate), f"sweep:{sweep}", *tags, seed=seed)

    jobs = [handle("old", seed, 100 + seed, *["baseline"] * (seed == 0)) for seed in range(3)]
    jobs += [handle("new", seed, 101 + seed) for seed in range(3)]
    compared = compare(jobs, preferences=MetricPreferences("images_per_sec"))
    sentences = [
        "old: images/sec 101 ± 1 over 3 seeds, the baseline",
        "new: images/sec 102 ± 1 over 3 seeds, within the spread of seeds of the baseline",
    ]
    assert compared.seed_groups().sentences() == sentences
    assert all(
        sentence in text for sentence in sentences for text in (repr(compared), compared._repr_html_())
    )
    assert not compare({"old": log(1, 100), "new": log(4, 90)}).seed_groups().sentences()


def test_runs_that_are_not_in_a_list_are_refused_with_the_way_to_give_them():
    with pytest.raises(UsageError, match="not in a list") as refused:
        compare("old.log", "new.log")
    assert refused.value.hint == "Write compare([first, second])."
