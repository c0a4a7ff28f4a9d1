from batchai_magics.metrics import read_metrics, tidy
from tests.metrics.log_text import run, step, total


def table(text, **patterns):
    return tidy(read_metrics(text.encode(), patterns=patterns).records)


def test_a_row_is_a_number_in_file_order():
    found = table(f"[1,3]<stdout>:{step(10)}\n{total(5)}\n")
    assert list(found.columns) == ["step", "rank", "metric", "value", "unit", "wall_time", "offset"]
    assert found["metric"].tolist() == [
        "images_per_sec", "uncertainty", "jitter", "loss", "total_images_per_sec",
    ]  # fmt: skip
    assert found["value"].tolist() == [61.9, 1.8, 8.0, 7.087, 5.0]


def test_step_and_rank_are_missing_where_the_log_tells_none():
    found = table(f"[1,3]<stdout>:{step(10)}\n{total(5)}\n")
    assert found["step"].isna().tolist() == [False] * 4 + [True]
    assert (found["rank"].iloc[0], found["step"].iloc[0]) == (3, 10)


def test_the_offset_is_where_the_numbers_line_ends():
    text = f"{step(1)}\n{step(10)}\n"
    assert sorted(set(table(text)["offset"])) == [text.index("\n") + 1, len(text)]


def test_a_number_has_its_unit():
    units = table(step(10, accuracies="\t0.125\t0.500") + "\n").set_index("metric")["unit"]
    assert (units["images_per_sec"], units["loss"], units["top_1"]) == ("images/sec", "", "fraction")


def test_a_users_own_metric_is_a_row():
    row = table("acc=0.5\n", acc=r"acc=(\S+)").iloc[0]
    assert (row["metric"], row["value"]) == ("acc", 0.5)


def test_evaluations_are_rows():
    found = table("10\t123.4 examples/sec\nAccuracy @ 1 = 0.5000 Accuracy @ 5 = 0.7500 [100 examples]\n")
    assert dict(zip(found["metric"], found["value"], strict=True)) == {
        "eval_examples_per_sec": 123.4,
        "eval_top_1": 0.5,
        "eval_top_5": 0.75,
        "eval_examples": 100,
    }


def test_it_pivots_into_a_column_for_each_metric_and_rank():
    text = "".join(f"[1,{rank}]<stdout>:{step(s, 100 + rank)}\n" for s in (1, 10) for rank in (0, 1))
    wide = table(text).pivot(index="step", columns=["metric", "rank"], values="value")
    assert wide["images_per_sec"].loc[10].tolist() == [100, 101]


def test_nothing_gives_an_empty_table_of_the_same_types():
    full = table(run())
    empty = table("")
    assert len(empty) == 0
    assert [kind.kind for kind in empty.dtypes] == [kind.kind for kind in full.dtypes]
