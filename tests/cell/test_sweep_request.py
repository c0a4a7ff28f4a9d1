"""What a cell with `--sweep` submits: the search space, the trials, and the job of each."""

import math
import shlex
import subprocess

import hypothesis
import hypothesis.strategies as st
import pandas as pd
import pytest

from batchai_magics.cell import Notebook
from batchai_magics.cell.cell_options import Goal, is_sweep
from batchai_magics.cell.search_space import FORM, Choices, Distribution, Range, listed_trials, search_space
from batchai_magics.cell.sweep_request import parse_sweep
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError


def sweep(line, body="print(1)", **names):
    return parse_sweep(line, body, settings=Settings(), notebook=Notebook(names=names, job_name="cell"))


def job(request, number):
    return request.job(number, request.trials[number])


def wire(request, number):
    return job(request, number).spec.to_wire()["properties"]


def test_each_trial_has_its_values_as_arguments_and_variables():
    request = sweep('s --sweep "lr=1e-4,1e-3 batch=32,64" --args "--lr {lr} --b={batch} --epochs {n}"', n=3)
    assert wire(request, 2)["horovodSettings"]["commandLineArgs"] == "--lr 0.001 --b=32 --epochs 3"
    variables = {item["name"]: item["value"] for item in wire(request, 3)["environmentVariables"]}
    assert variables == {"PARAM_LR": "0.001", "PARAM_BATCH": "64"}


def test_a_sweep_may_be_given_in_parts():
    parts = sweep("s --sweep lr=0.1,0.2 --nodes 2 --sweep=batch=32,64")
    assert parts.trials == sweep('s --sweep "lr=0.1,0.2 batch=32,64"').trials
    assert parts.first.spec.to_wire()["properties"]["nodeCount"] == 2


def test_parameter_becomes_an_argument_if_the_script_has_an_option_for_it():
    body = 'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--batch-size")'
    request = sweep('s --sweep "batch_size=32,64 lr=1" --args "--epochs 2"', body)
    assert wire(request, 1)["horovodSettings"]["commandLineArgs"] == "--epochs 2 --batch-size 64"
    assert wire(sweep('s --sweep "batch_size=32"', body), 0)["horovodSettings"]["commandLineArgs"] == (
        "--batch-size 32"
    )
    assert wire(sweep("s --seeds 2", "a('--seed')"), 1)["horovodSettings"]["commandLineArgs"] == "--seed 1"


def test_a_template_has_a_script_in_a_folder_of_its_own_for_each_trial():
    request = sweep('s --sweep "lr=0.1,0.2 opt=adam" --template', "lr = {lr}\nopt = '{opt}'")
    scripts = [job(request, number).uploads for number in (0, 1)]
    assert [list(each.values()) for each in scripts] == [
        [b"lr = 0.1\nopt = 'adam'"],
        [b"lr = 0.2\nopt = 'adam'"],
    ]
    folders = {next(iter(each)).rpartition("/")[0] for each in scripts}
    mounted = {wire(request, n)["inputDirectories"][0]["path"].partition("autoafs/")[2] for n in (0, 1)}
    assert len(folders) == 2
    assert mounted == folders


def test_trials_of_the_same_script_share_its_upload():
    request = sweep('s --sweep "lr=0.1,0.2"')
    assert job(request, 0).uploads == job(request, 1).uploads != {}


def test_a_parameter_can_be_the_number_of_nodes():
    request = sweep('s --sweep "n=1,2,4" --nodes {n}')
    assert [wire(request, number)["nodeCount"] for number in (0, 1, 2)] == [1, 2, 4]


def test_value_with_quotes_reaches_the_job_unchanged():
    request = sweep("s --sweep rows", rows=[{"text": 'a "b" \\ {c}'}])
    assert wire(request, 0)["environmentVariables"][0]["value"] == 'a "b" \\ {c}'


def test_rows_come_from_a_variable():
    rows = pd.DataFrame({"lr": [0.1, 0.2]})
    request = sweep("s --sweep rows", rows=rows)
    assert (request.options.search, request.trials) == ("rows", [{"lr": 0.1}, {"lr": 0.2}])


def test_ranges_make_a_random_search_and_lists_a_grid():
    assert sweep('s --sweep "lr=log(1e-5,1)" --trials 3').options.search == "random"
    assert sweep('s --sweep "lr=1,2"').options.search == "grid"
    assert sweep('s --sweep "lr=1,2,3" --trials 2').trial_count == 2


def test_trials_of_an_optuna_search_are_chosen_later():
    request = sweep('s --sweep "lr=log(1e-5,1)" --trials 3 --search tpe')
    assert (request.options.search, request.trials, request.trial_count) == ("tpe", [], 3)
    made = request.template and request.job(0, {"lr": 0.25})
    assert made.spec.to_wire()["properties"]["environmentVariables"] == [
        {"name": "PARAM_LR", "value": "0.25"}
    ]


def test_goal_is_a_metric_with_the_direction_of_better_values():
    def goal(text):
        return sweep(f's --sweep "lr=1" --best "{text}"').options.goal

    assert goal("min val_loss") == Goal("val_loss", is_max=False)
    assert goal("max images/sec") == Goal("images_per_sec", is_max=True)
    assert goal("accuracy") == Goal("accuracy")


def test_only_a_line_with_the_option_is_a_sweep():
    assert is_sweep("a --sweep=lr=1")
    assert not is_sweep("a --args '--sweep 1'")
    assert not is_sweep('a --args "')


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("s --sweep rows", "there is no variable rows"),
        ("s --sweep lr=log(1,2)", "--trials is missing"),
        ("s --sweep lr=log(1,2) --search grid --trials 2", "a range has no grid"),
        ("s --sweep lr=1,2 --search grid --trials 2", "--trials does not go with --search grid"),
        ("s --sweep known --trials 2", "--trials does not go with rows"),
        ("s --sweep lr=1 --best 'min'  --best 'least loss'", "--best least loss: write it as"),
        ("s --sweep lr=1 --seed x", "--seed x: expected a whole number"),
        ("s --sweep lr=1 --parallel 0", "--parallel 0"),
        ("s --sweep lr=1 --search best", "--search"),
        ("s --sweep lr=1 --prune x", "--prune"),
        ("s --sweep lr=1 --use lr", "--use lr: this is a parameter of the sweep"),
        ("s --sweep n=int(1,4) --nodes {n} --trials 2 --search tpe", "--search tpe"),
        ("s --sweep lr=1 --args {mu}", "there is no variable mu"),
    ],
)
def test_an_error_names_the_option(line, told):
    with pytest.raises(UsageError) as caught:
        sweep(line, known=[{"a": 1}])
    assert told in str(caught.value)


def test_an_option_of_a_sweep_without_one_is_refused():
    from batchai_magics.cell import parse

    with pytest.raises(UsageError, match="--retry-failed is given without --sweep"):
        parse("s --retry-failed 2", "print(1)", settings=Settings())


HOSTILE = [
    "$(touch X)",
    "`touch X`",
    "; touch X",
    "' ; touch X '",
    '" ; touch X "',
    "a b",
    "\\",
    "\n touch X",
    "*",
    "~",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "args", ["--a {x}", "--a='{x}'", '--a="{x}"', "--a=$HOME/{x}", "--a '$(id)'{x}", "--b \\' {x} --c={x}"]
)
@pytest.mark.parametrize("more", ["", " --nodes {n}"])  # with a template of all trials, and a job of each
def test_a_value_is_one_argument_whatever_quotes_surround_it(tmp_path, args, more):
    line = shlex.join(["s", "--sweep", "rows", "--args", args]) + more
    request = sweep(line, rows=[{"x": value, "n": 1} for value in HOSTILE])
    commands = [wire(request, n)["horovodSettings"]["commandLineArgs"] for n in range(len(HOSTILE))]
    (plain,) = arguments_of([args.replace("{x}", "VALUE")], tmp_path)
    assert arguments_of(commands, tmp_path) == [plain.replace("VALUE", value) for value in HOSTILE]
    assert not list(tmp_path.iterdir())


def arguments_of(commands, folder):
    """The words that a shell makes of each text."""
    script = "\n".join(f'printf "%s|" {command}; printf "\\0"' for command in commands)
    shown = subprocess.run(["/bin/bash", "-c", script], cwd=folder, capture_output=True, check=True).stdout
    return shown.decode().split("\0")[:-1]


READ_AGAIN = (
    "$(echo {x})",
    '"$(echo {x})"',
    "`echo {x}`",
    "# {x}",
    "bash -c 'echo {x}'",
    'eval "{x}"',
    "\\{x}",
)


@pytest.mark.parametrize("args", READ_AGAIN)
def test_a_value_is_refused_where_a_shell_would_read_it_again(args):
    line = shlex.join(["s", "--sweep", "rows", "--args", args])
    assert sweep(line, rows=[{"x": 0.5}]).trial_count == 1
    with pytest.raises(UsageError, match="cannot be an argument"):
        sweep(line, rows=[{"x": 0.5}, {"x": "$(touch X)"}])


def test_a_value_in_a_preparation_is_an_argument():
    request = sweep("s --sweep rows --prep 'pip install {x}'", rows=[{"x": "a; touch X"}])
    assert wire(request, 0)["jobPreparation"]["commandLine"].endswith("pip install 'a; touch X'")


def test_an_argument_of_an_option_of_the_script_is_quoted():
    request = sweep("s --sweep rows", 'parser.add_argument("--x")', rows=[{"x": "$(touch X)"}])
    assert wire(request, 0)["horovodSettings"]["commandLineArgs"] == "--x '$(touch X)'"


def test_the_path_of_a_script_takes_no_value_that_a_shell_expands():
    body = """{{"properties": {{"nodeCount": 1, "stdOutErrPathPrefix": "/x",
        "horovodSettings": {{"pythonScriptFilePath": "{x}.py"}}}}}}"""
    assert sweep("s --spec --template --sweep rows", body, rows=[{"x": "a b"}]).trial_count == 1
    with pytest.raises(UsageError, match="cannot be part of a path"):
        sweep("s --spec --template --sweep rows", body, rows=[{"x": "$(touch X)"}])


def variables(request, number):
    return {item["name"]: item["value"] for item in wire(request, number)["environmentVariables"]}


def test_seeds_alone_are_a_sweep_over_the_variable():
    assert is_sweep("s --seeds 3")
    request = sweep("s --seeds 3")
    assert request.trials == [{"seed": 0}, {"seed": 1}, {"seed": 2}]
    assert variables(request, 2) == {"BATCHAI_SEED": "2", "PARAM_SEED": "2"}


def test_each_trial_runs_with_each_seed():
    request = sweep('s --sweep "lr=0.1,0.2" --seeds 2')
    assert request.trials == [{"lr": lr, "seed": seed} for lr in (0.1, 0.2) for seed in (0, 1)]
    assert variables(request, 3) == {"BATCHAI_SEED": "1", "PARAM_LR": "0.2", "PARAM_SEED": "1"}
    drawn = sweep('s --sweep "lr=log(1e-5,1e-1)" --trials 3 --seeds 2').trials
    assert [trial["seed"] for trial in drawn] == [0, 1] * 3
    assert len({trial["lr"] for trial in drawn}) == 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('s --sweep "seed=1,2" --seeds 2', "--seeds: the sweep has a parameter seed already"),
        (
            's --sweep "lr=log(1e-5,1)" --trials 2 --search tpe --seeds 2',
            "--seeds does not go with --search tpe",
        ),
        ("s --seeds 2 --trials 3", "--trials does not go with --seeds alone"),
        ("s --seeds 0", "--seeds 0: expected a whole number of at least 1"),
        ("s --seeds 100001", "--seeds: these are more than 100,000 trials"),
        ('s --sweep "lr=1,2" --seeds 50001', "--seeds: these are more than 100,000 trials"),
        ('s --sweep "" --seeds 2', "--sweep: no parameter is given"),
    ],
)
def test_invalid_seeds_are_refused(line, message):
    with pytest.raises(UsageError) as caught:
        sweep(line)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("s --sweep", f"--sweep: expected one argument\n{FORM}"),
        ("s --seeds", "--seeds: expected one argument\n`%%batchai_job --help` lists the options"),
        (
            's --sweep "lr=1,2" --args',
            "--args: expected one argument\n`%%batchai_job --help` lists the options",
        ),
    ],
)
def test_an_option_of_a_sweep_without_its_value_is_refused_as_in_any_cell(line, text):
    with pytest.raises(UsageError) as caught:
        sweep(line)
    assert str(caught.value) == text


def test_a_grid_has_every_combination_and_the_last_parameter_varies_fastest():
    assert search_space("lr=1e-4,1e-3 batch=32,64").grid() == [
        {"lr": 1e-4, "batch": 32},
        {"lr": 1e-4, "batch": 64},
        {"lr": 1e-3, "batch": 32},
        {"lr": 1e-3, "batch": 64},
    ]


def test_ranges_are_read_with_spaces_inside():
    space = search_space("lr=log(1e-5, 1e-1) dropout=uniform(0,.5)  layers=int(2,8)")
    assert space.domains == {
        "lr": Range(Distribution.LOG, 1e-5, 1e-1),
        "dropout": Range(Distribution.UNIFORM, 0, 0.5),
        "layers": Range(Distribution.INTEGER, 2, 8),
    }


def test_values_are_numbers_truth_values_and_texts():
    (domain,) = search_space("x=1,2.5,True,adam,true,1").domains.values()
    assert str(domain) == str(Choices((1, 2.5, True, "adam", "true")))
    assert search_space("x=16:9,4:3").domains["x"].has("16:9")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no parameter is given"),
        ("lr", "'lr' is not NAME=VALUES"),
        ("lr=", "lr has an empty value"),
        ("lr=1,,2", "lr has an empty value"),
        ("lr=1 lr=2", "the parameter lr is there twice"),
        ("a-b=1", "'a-b' is not a name for a parameter"),
        ("lr=log(0,1)", "lr=log(0,1): the bounds of log(…) must be positive"),
        ("lr=uniform(1,1)", "the first bound must be less than the second"),
        ("lr=uniform(1)", "expected two numbers"),
        ("lr=uniform(a,b)", "expected two numbers"),
        ("lr=normal(0,1)", "there is no normal(…)"),
        ("n=int(1,2.5)", "must be whole numbers"),
        ("lr=log(1,2", "is not NAME=VALUES"),
        ("lr=.1:3e-1", "lr=.1:3e-1 is neither a list of values nor a range"),
        ("lr=0:1:0.1", "lr=uniform(0.1,0.3)"),
        ("lr=0.1..0.3", "Values: lr=0.1,0.3"),
        ("lr=[1,2]", "lr=[1,2] is neither"),
        ("lr=(1,2)", "lr=(1,2) is neither"),
    ],
)
def test_an_error_names_the_parameter(text, told):
    with pytest.raises(UsageError) as caught:
        search_space(text)
    assert told in str(caught.value)


def test_the_same_seed_gives_the_same_trials_and_more_of_them_continue_the_sequence():
    space = search_space("lr=log(1e-5,1e-1) dropout=uniform(0,.5)")
    assert space.sample(20, 1)[:7] == space.sample(7, 1)
    assert space.sample(7, 1) != space.sample(7, 2)


def test_a_random_search_of_lists_ends_when_all_combinations_are_drawn():
    found = search_space("a=1,2 b=x,y").sample(50, 0)
    assert sorted((row["a"], row["b"]) for row in found) == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


@hypothesis.given(st.integers(0, 10_000))
def test_drawn_values_are_inside_their_range(seed):
    (row,) = search_space("lr=log(1e-5,1e-1) n=int(2,4) p=uniform(-1,1)").sample(1, seed)
    assert 1e-5 <= row["lr"] <= 1e-1
    assert row["n"] in (2, 3, 4)
    assert -1 <= row["p"] <= 1


def test_a_log_range_covers_its_orders_of_magnitude_evenly():
    drawn = [row["lr"] for row in search_space("lr=log(1e-4,1)").sample(2000, 3)]
    decades = [sum(1 for lr in drawn if math.floor(math.log10(lr)) == decade) for decade in (-4, -3, -2, -1)]
    assert min(decades) > 400


def test_the_rows_of_a_data_frame_are_trials_without_duplicates():
    rows = pd.DataFrame({"lr": [0.1, 0.2, 0.1], "opt": ["sgd", "adam", "sgd"]})
    assert listed_trials(rows) == [{"lr": 0.1, "opt": "sgd"}, {"lr": 0.2, "opt": "adam"}]
    assert type(listed_trials(pd.DataFrame({"n": [1]}))[0]["n"]) is int


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "not empty"),
        ("rows", "a DataFrame or a list of dicts"),
        ([{"lr": [1]}], "row 0, column lr"),
        ([{"lr": 1}, {"lr": float("nan")}], "row 1, column lr"),
        ([{"lr": 1}, {"mu": 1}], "row 1 and row 0 differ in lr, mu"),
        ([{"a b": 1}], "'a b' is not a name"),
    ],
)
def test_an_error_names_the_row(rows, told):
    with pytest.raises(UsageError) as caught:
        listed_trials(rows)
    assert told in str(caught.value)
