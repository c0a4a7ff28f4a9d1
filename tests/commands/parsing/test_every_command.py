"""Every command of `az batchai`, with every option that it had: each is known, read and explained."""

import pytest

from batchai_magics.commands.parsing.command_parser import parse
from batchai_magics.commands.specs.command_table import COMMANDS
from batchai_magics.commands.specs.shared_options import options_of
from batchai_magics.options.option import ValueKind

_WS = "--resource-group -g --workspace -w"
_EXP = f"{_WS} --experiment -e"
_JOB = f"{_EXP} --name -n"
_OF_JOB = f"{_EXP} --job -j"
_OF_CLUSTER = f"{_WS} --cluster -c"
_END = "--ids --no-wait --yes -y"
_MOUNT = (
    "--storage-account-name --storage-account-key --afs-name --afs-mount-path --bfs-name --bfs-mount-path "
    "--nfs --nfs-mount-path"
)
_ADMIN = "--user-name -u --ssh-key -k --generate-ssh-keys --password -p"
_EXEC = "--exec --node-id -n --address -L --password -p --ssh-private-key -k"
_GLOBAL = "--debug --verbose --help -h --output -o --query --subscription"

OPTIONS = {
    "workspace create": "--resource-group -g --workspace -n --location -l",
    "workspace show": "--resource-group -g --workspace -n --ids",
    "workspace list": "--resource-group -g",
    "workspace delete": f"--resource-group -g --workspace -n {_END}",
    "cluster create": f"{_WS} --name -n --config-file -f {_ADMIN} --image -i --custom-image --vm-size -s "
    f"--vm-priority --target -t --min --max --use-auto-storage {_MOUNT} --setup-task --setup-task-output "
    "--subnet",
    "cluster show": f"{_WS} --name -n --ids",
    "cluster list": _WS,
    "cluster delete": f"{_WS} --name -n {_END}",
    "cluster resize": f"{_WS} --name -n --ids --target -t",
    "cluster auto-scale": f"{_WS} --name -n --ids --min --max",
    "cluster node list": _OF_CLUSTER,
    "cluster node exec": f"{_OF_CLUSTER} {_EXEC}",
    "cluster file list": f"{_OF_CLUSTER} --path -p --expiry",
    "experiment create": f"{_WS} --name -n",
    "experiment show": f"{_WS} --name -n --ids",
    "experiment list": _WS,
    "experiment delete": f"{_WS} --name -n {_END}",
    "job create": f"{_JOB} --config-file -f --cluster -c {_MOUNT}",
    "job show": f"{_JOB} --ids",
    "job list": _EXP,
    "job delete": f"{_JOB} {_END}",
    "job terminate": f"{_JOB} {_END}",
    "job wait": f"{_JOB} --ids --interval",
    "job file list": f"{_OF_JOB} --output-directory-id -d --path -p --expiry",
    "job file stream": f"{_OF_JOB} --file-name -f --output-directory-id -d --path -p",
    "job node list": _OF_JOB,
    "job node exec": f"{_OF_JOB} {_EXEC}",
    "file-server create": f"{_WS} --name -n --vm-size -s --config-file -f --disk-count --disk-size "
    f"--caching-type --storage-sku {_ADMIN} --subnet --no-wait",
    "file-server show": f"{_WS} --name -n --ids",
    "file-server list": _WS,
    "file-server delete": f"{_WS} --name -n {_END}",
    "list-usages": "--location -l",
}
BY_WORDS = {command.words: command for command in COMMANDS}


def test_a_command_knows_every_option():
    for words, flags in OPTIONS.items():
        known = {flag for option in options_of(BY_WORDS[words]) for flag in option.flags}
        assert not set(f"{flags} {_GLOBAL}".split()) - known, words


def sample(option, flag):
    """An option as it is written, and the value that it then has."""
    if option.value_kind is ValueKind.NOTHING:
        return [flag], True
    if option.value_kind is ValueKind.NUMBER:
        return [flag, "7"], 7
    if option.value_kind is ValueKind.MANY:
        return [flag, "one", "two"], ["one", "two"]
    value = option.choices[-1] if option.choices else "some value"
    return [flag, value], [value] if option.is_repeatable else value


@pytest.mark.parametrize("words", OPTIONS)
def test_every_spelling_of_an_option_is_read(words):
    options = [option for option in options_of(BY_WORDS[words]) if "--help" not in option.flags]
    assert len({option.name for option in options}) == len(options)
    for option in options:
        others = [other for other in options if other.is_required and other is not option]
        line = [word for other in others for word in sample(other, other.flags[0])[0]]
        for flag in option.flags:
            written, value = sample(option, flag)
            arguments = parse([*words.split(), *line, *written]).arguments
            assert getattr(arguments, option.name) == value, flag


@pytest.mark.parametrize("words", OPTIONS)
def test_every_option_is_in_the_help(words):
    text = parse([*words.split(), "-h"])
    assert all(flag in text for flag in OPTIONS[words].split())
