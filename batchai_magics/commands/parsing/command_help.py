"""Help of command groups and commands in the layout of `az`, with examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchai_magics.commands.specs.command_spec import PROGRAM, CommandSpec, subcommands
from batchai_magics.commands.specs.command_table import COMMANDS, GROUPS
from batchai_magics.commands.specs.shared_options import options_of
from batchai_magics.config import Settings
from batchai_magics.options.option_help import DisplayText, option_sections, section

EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "cluster create": {
        "Two nodes, with a share and a container made for them.": (
            "-n nc6 -s Standard_NC6 -t 2 --use-auto-storage"
        ),
        "Up to four nodes, as many as waiting jobs need.": "-n nc6 -s Standard_NC6 --min 0 --max 4",
        "As a file says, but with other nodes.": "-n nc6 -f cluster.json -t 4",
    },
    "cluster resize": {"No nodes for now.": "-n nc6 -t 0"},
    "cluster auto-scale": {"As many nodes as waiting jobs need, four at most.": "-n nc6 --min 0 --max 4"},
    "cluster show": {"How many nodes are ready?": "-n nc6 --query nodeStateCounts"},
    "cluster node exec": {
        "Look at what a node has mounted.": "-c nc6 --exec 'ls $AZ_BATCHAI_MOUNT_ROOT'",
        "Reach a program on a node at port 8888.": "-c nc6 -L 8888:localhost:8888",
    },
    "job create": {
        "A job as a file describes it.": "-n resnet -f job.json -c nc6",
        "A job from each of several files.": "-f 'jobs/*.json' -c nc6",
    },
    "job list": {
        "Only the names of those that failed.": "--query \"[?executionState=='failed'].name\" -o tsv"
    },
    "job file stream": {"Watch what a job prints.": "-j resnet -f stdout.txt"},
    "job file list": {"What a job wrote to its output directory MODEL.": "-j resnet -d MODEL -o table"},
    "job resubmit": {"Run all failed jobs again.": "--state failed"},
    "job delete": {"Delete all failed jobs.": "--state failed -y"},
    "experiment wait": {"Wait for all jobs; the exit code says whether any failed.": "-n tries"},
    "storage file upload": {
        "A script, into a folder of a share.": "-s batchaishare --source train.py -p scripts/"
    },
    "storage file upload-batch": {"A folder of pictures.": "-d batchaishare -s pictures --pattern '*.png'"},
    "storage file download-batch": {
        "All models of a folder.": "-s batchaishare -d models --source-path models"
    },
    "configure": {"Name things once.": "--defaults group=mine workspace=lab cluster=nc6"},
}


def group_help(path: Sequence[str]) -> DisplayText:
    """The help of a command group."""
    groups, commands = {}, {}
    for word in subcommands(path, COMMANDS):
        words = " ".join((*path, word))
        if words in GROUPS:
            groups[word] = GROUPS[words]
        else:
            commands[word] = next(command.summary for command in COMMANDS if command.words == words)
    head = f"Group\n    {' '.join((PROGRAM, *path))} : {GROUPS[' '.join(path)]}\n"
    parts = [section("Subgroups:", groups), section("Commands:", commands)]
    return DisplayText("\n".join([head, *filter(None, parts)]).rstrip())


def command_help(command: CommandSpec, settings: Settings | None = None) -> DisplayText:
    """The help of a command, with the options of the backends that the settings know."""
    head = f"Command\n    {PROGRAM} {command.words} : {command.summary}\n"
    sections = option_sections(options_of(command, settings))
    return DisplayText("\n".join([head, *sections, _examples(command)]).rstrip())


def _examples(command: CommandSpec) -> str:
    shown = EXAMPLES.get(command.words, {})
    lines = [f"    {what}\n        {PROGRAM} {command.words} {rest}\n" for what, rest in shown.items()]
    return "\n".join(["Examples", *lines]) if lines else ""
