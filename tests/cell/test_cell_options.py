import re
from dataclasses import replace

import pytest

from batchai_magics.cell.cell_options import OPTIONS, HelpRequested, help_text, read_options
from batchai_magics.commands.specs.command_table import COMMANDS
from batchai_magics.errors import UsageError
from batchai_magics.models.job_spec import JobPriority, JobSpec
from batchai_magics.models.toolkit_settings import Toolkit
from batchai_magics.options.job_options import JOB_OPTIONS, OF_JOB_CREATE, PRIORITIES, TOOLKITS, JobOption


def refused(*words):
    with pytest.raises(UsageError) as caught:
        read_options(words, {})
    return str(caught.value)


def test_the_first_word_or_the_option_names_the_job():
    assert read_options(["r"], {}).name == read_options(["--name", "r"], {}).name == "r"
    assert read_options(["r", "--name", "r"], {}).name == "r"
    assert "two names: a and b" in refused("a", "--name", "b")


def test_choices_of_options_match_the_models():
    assert set(TOOLKITS) == {kind.value for kind in Toolkit}
    assert set(PRIORITIES) == {priority.value for priority in JobPriority}


@pytest.mark.parametrize("value", ["--verbose", "--lr=1", "-x", "-1", "--lr 1"])
def test_a_value_may_begin_with_a_dash(value):
    assert read_options(["r", "--args", value], {}).args == value
    assert read_options(["r", f"--args={value}"], {}).args == value


def test_option_is_not_read_as_the_value_of_another():
    assert "--args: expected one argument" in refused("r", "--args", "--nodes", "2")
    told = refused("r", "--args", "--nodes=2")
    assert "--args: expected one argument\nWrite --args=--nodes=2 if that is its value; `%%" in told
    assert "--sweep: expected one argument\nwrite it as --sweep" in refused("r", "--sweep", "--nodes=2")


def test_repeatable_options_give_lists():
    given = read_options(["r", "--env", "A=1", "--env", "B=2", "--upload", "a", "b", "--upload", "c"], {})
    assert given.env == {"A": "1", "B": "2"}
    assert given.uploads == ("a", "b", "c")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--node", 'Did you mean "--nodes"?'),
        ("--toolkt", 'Did you mean "--toolkit"?'),
        ("--dryrun", 'Did you mean "--dry-run"?'),
        ("-np --nproc_per_node --ntasks", "Here it is --processes: "),
        ("-N --num_machines", "Here it is --nodes: "),
        ("--time", "Here it is --max-time: "),
        ("--gres", "Here it is --gpus: "),
        ("--epochs --lr --batch-size --momentum", "`%%batchai_job --help` lists the options"),
    ],
)
def test_unknown_option_suggests_our_similar_option_or_a_launchers(words, told):
    for word in words.split():
        first, second = refused("r", word, "2").splitlines()[:2]
        assert (first, second[: len(told)]) == (f"unknown option {word}", told)


def test_names_of_options_in_other_programs_are_unique():
    flags = [flag for option in JOB_OPTIONS for flag in (*option.flags, *option.elsewhere)]
    assert len({*flags}) == len(flags)


def test_a_misspelt_choice_gets_a_guess():
    assert "--toolkit: 'horvod' is not one of horovod, mpi," in refused("r", "--toolkit", "horvod")
    assert 'Did you mean "horovod"?' in refused("r", "--toolkit", "horvod")


def test_second_positional_word_is_named_in_the_error():
    assert "unexpected argument 'second'" in refused("first", "second")


def test_help_names_every_option():
    with pytest.raises(HelpRequested) as caught:
        read_options(["r", "-h"], {})
    assert caught.value.message == help_text()
    assert caught.value._render_traceback_() == [help_text()]
    assert all(option.flags[0] in help_text() for option in OPTIONS)
    assert not re.search(r"\b(later|not yet|one day|in future|TODO)\b", help_text()), "nothing is promised"


@pytest.mark.parametrize(
    "option",
    [option for option in OPTIONS if getattr(option, "sets", "")],
    ids=lambda option: option.name,
)
def test_options_set_existing_properties_of_a_job(option: JobOption) -> None:
    properties = JobSpec.model_json_schema(by_alias=True)["properties"]
    assert option.sets.partition(".")[0] in properties


def test_job_create_has_the_options_of_a_cell() -> None:
    (create,) = (command for command in COMMANDS if command.words == "job create")
    here = {option.flags[0]: option for option in create.options}
    for option in (option for option in OPTIONS if option.flags[0] in OF_JOB_CREATE):
        expected = f"{option.help[0].upper()}{option.help[1:]}."
        assert here[option.flags[0]] == replace(option, help=expected)


def test_options_of_one_line_do_not_leak_into_the_next():
    first, second = (read_options(["a", "--tag", tag], {}) for tag in ("one", "two"))
    assert (first.tags, second.tags) == (("one",), ("two",))


def test_error_of_each_line_names_the_command_that_it_is_for():
    for command in ("%%batchai_job", "batchai run"):
        with pytest.raises(UsageError) as caught:
            read_options(["a", "--nodes"], {}, command=command)
        assert caught.value.hint == f"`{command} --help` lists the options"


def test_arguments_behind_two_dashes_are_answered_with_the_option_that_takes_them():
    told = refused("r", "--", "--exclude-bad", "--epochs", "3")
    assert "Did you mean" not in told
    assert "write: --args '--exclude-bad --epochs 3'" in told
