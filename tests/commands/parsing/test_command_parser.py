import re
import shlex
from dataclasses import replace

import pytest

from batchai_magics.commands.parsing.command_parser import EXAMPLES, parse
from batchai_magics.commands.specs.command_table import COMMANDS, GROUPS
from batchai_magics.errors import UsageError
from batchai_magics.options.option import DisplayText


def parsed(line):
    return parse(line.split()).arguments


def complaint(line):
    with pytest.raises(UsageError) as caught:
        parse(line.split())
    return str(caught.value)


def test_every_command_has_a_handler_and_help():
    for command in COMMANDS:
        assert callable(command.load())
        text = str(parse([*command.parts, "--help"]))
        assert command.summary in text, command.words
        assert not re.search(r"\b(later|not yet|one day|in future|TODO)\b", text), "nothing is promised"


def test_no_command_gives_a_flag_two_meanings():
    for command in COMMANDS:
        assert isinstance(parse([*command.parts, "-h"]), DisplayText)
        flags = [flag for option in command.options for flag in option.flags]
        assert len(flags) == len(set(flags)), command.words


def test_every_group_is_described():
    groups = {command.parts[:depth] for command in COMMANDS for depth in range(len(command.parts))}
    assert {" ".join(group) for group in groups} == set(GROUPS)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("job show --name=hello", "name", "hello"),
        ("job show --ids /a /b", "ids", ["/a", "/b"]),
        ("cluster resize -n c -t 0", "target", 0),
        ("cluster create -n c --vm-priority LowPriority", "vm_priority", "lowpriority"),
    ],
    ids=["behind a sign", "several ids in place of a name", "zero nodes", "choices in any case"],
)
def test_an_option_has_its_value(line, name, value):
    assert getattr(parsed(line), name) == value


def test_a_command_of_the_shell_is_answered_with_how_a_notebook_runs_it():
    told = complaint("run train.py --nodes 2")
    assert "'run' is a command of a shell" in told
    assert "Write !batchai run train.py --nodes 2, or batchai_magics.run(…)." in told
    assert "Write !batchai serve." in complaint("serve")


def test_a_wrong_word_is_answered_with_a_guess():
    assert 'Did you mean "show"?' in complaint("job shwo -n x")
    assert "'jbo' is not in the 'batchai' command group." in complaint("jbo list")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("job logs -n x", "batchai logs"),
        ("job cancel -n x", "batchai cancel"),
        ("job download -n x", "batchai download"),
        ("job tail x", "batchai logs"),
    ],
)
def test_a_command_without_job_is_guessed_from_one_with_it(line, meant):
    assert f'Did you mean "{meant}"?' in complaint(line)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("workspace qqqqqq", "Commands: create, show, list, delete."),
        (
            "storage blob upload-batch -s here --dest there",
            "ambiguous option: --dest could match --destination, --destination-path",
        ),
        ("job show", "the following arguments are required: --name/-n"),
        ("job file stream", "--job/-j, --file-name/-f"),
        ("cluster create -n c -t two", "expected a whole number, got 'two'"),
        ("job list -o tabel", 'Did you mean "table"?'),
        ("job --name x", "a command is missing before --name"),
        ("job straem-file -n x", 'Did you mean "stream-file"?'),
    ],
)
def test_a_line_that_cannot_be_read_says_why(line, told):
    assert told in complaint(line)


def test_a_script_in_place_of_a_command_is_answered_with_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "batchai run" not in complaint("hello.py")
    (tmp_path / "hello.py").touch()
    assert 'Did you mean "batchai run hello.py --nodes 2"?' in complaint("hello.py --nodes 2")


def test_a_wrong_option_is_answered_with_a_guess():
    told = complaint("job show --nmae x")
    assert "unrecognized arguments: --nmae" in told
    assert 'Did you mean "--name"?' in told
    assert 'Did you mean "--output-directory-id"?' in complaint(
        "job file list -j x --output-directroy-id=stdouterr-of-a-very-long-name"
    )


def test_a_name_for_a_command_that_shows_all_jobs_is_answered_with_that_for_one():
    assert "batchai logs train -f" in complaint("watch train")
    assert "batchai show train" in complaint("ps train")


def test_the_beginning_of_an_option_that_no_other_has_is_enough():
    assert parsed("job file list --j x").job == "x"
    assert parsed("job file list --job x --expi 5").expiry == 5
    assert parsed("job create -n x --config=job.json").config_file == ["job.json"]


@pytest.mark.parametrize("before", ["az batchai", "batchai", "batchai batchai"])
def test_a_line_may_be_pasted_with_its_program(before):
    pasted = parse(f"{before} job show -n x".split())
    assert replace(pasted, is_az=False) == parse(["job", "show", "-n", "x"])
    assert pasted.is_az is before.startswith("az ")


def test_a_line_of_az_may_be_about_something_else():
    assert parse(["az", "group", "create", "-n", "g", "-l", "eastus"]).command.words == "group create"
    assert "'vm' is not in the 'az' command group." in complaint("az vm list")
    assert "Subgroups:" in parse(["az"])


def test_a_number_has_a_least_value():
    assert parsed("job file list -j x --expiry 1").expiry == 1
    assert "expected 1 or more, got 0" in complaint("job file list -j x --expiry 0")


@pytest.mark.parametrize("line", ["", "-h", "--help", "job", "job -h", "job file"])
def test_a_group_gives_its_commands(line):
    text = parse(line.split())
    assert isinstance(text, DisplayText)
    assert "Commands:" in text
    assert repr(text) == str(text)


def test_help_shows_what_az_shows():
    text = parse(["cluster", "create", "--help"])
    assert text.startswith("Command\n    batchai cluster create : Create a cluster.")
    assert "--name -n [Required]" in text
    assert "Allowed values: dedicated, lowpriority." in text
    assert "Global Arguments" in text


def test_what_cannot_be_undone_is_to_be_confirmed():
    assert parse(["job", "delete", "-n", "x"]).needs_confirmation
    assert not parse(["job", "delete", "-n", "x", "-y"]).needs_confirmation
    assert not parse(["job", "show", "-n", "x"]).needs_confirmation


def test_a_bare_name_is_answered_with_its_option():
    assert 'Did you mean "-n resnet"?' in complaint("job show resnet")
    assert 'Did you mean "-j resnet"?' in complaint("job file list resnet")
    assert 'Did you mean "--file err.txt"?' in complaint("logs resnet err.txt")
    assert "Did you mean" not in complaint("group list mine")


@pytest.mark.parametrize(
    ("words", "rest"), [(words, rest) for words, lines in EXAMPLES.items() for rest in lines.values()]
)
def test_every_example_is_a_line_that_can_be_read(words, rest):
    invocation = parse([*words.split(), *shlex.split(rest)])
    assert (invocation.command.words, invocation.translations) == (words, ())
    assert f"        batchai {words} {rest}" in parse([*words.split(), "-h"])


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("cancle", "cancel"),
        ("kill", "cancel"),
        ("log", "logs"),
        ("runn", "run"),
        ("wait", "job wait"),
        ("sho", "show"),
        ("help", "--help"),
        ("help logs", "logs --help"),
        ("job help", "job --help"),
        ("--verison", "--version"),
        ("-V", "--version"),
        ("version", "--version"),
        ("ps -a", "batchai job list"),
        ("ps --all", "batchai job list"),
        ("logs x -n 5", "--tail"),
        ("jobs list", "job list"),
        ("experiments show -n e", "experiment show"),
    ],
)
def test_an_unknown_command_suggests_the_one_that_is_meant(word, meant):
    assert f'Did you mean "{meant}"?' in complaint(word)


def test_help_has_no_command_that_does_nothing():
    shown = parse(["--help"])
    assert not any(f"\n    {word} " in shown for word in ("login", "logout", "role", "provider"))
    assert all(f"\n    {word} " in shown for word in ("job", "logs", "configure"))
    assert not any("nothing to do" in line for line in parse(["account", "-h"]).splitlines())
    assert parse(["login", "-u", "me"]).command.words == "login"
