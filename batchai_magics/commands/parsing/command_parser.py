"""Parses the words of a command line to an Invocation or the text of help, in the layout of `az`."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from batchai_magics.commands.parsing.dialect_2017 import legacy_words, translate
from batchai_magics.commands.specs import session_specs, storage_specs
from batchai_magics.commands.specs import shared_options as o
from batchai_magics.commands.specs.command_table import COMMANDS, GROUPS
from batchai_magics.commands.specs.shared_options import (
    PROGRAM,
    CommandSpec,
    command_path,
    options_of,
    subcommands,
)
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.options.option import DisplayText, Option, option_sections, section
from batchai_magics.options.option_parsing import parse_options

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
    for word in subcommands(path, [command for command in COMMANDS if not command.is_hidden]):
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
    examples = [
        f"    {title}\n        {PROGRAM} {command.words} {words}\n"
        for title, words in EXAMPLES.get(command.words, {}).items()
    ]
    heading = ["Examples"] if examples else []
    return DisplayText("\n".join([head, *sections, *heading, *examples]).rstrip())


SHELL_WORDS = {
    "agent-skill": "Write a skill from which a coding agent learns this command.",
    "mcp": "Serve jobs to a coding agent over the Model Context Protocol.",
    "run": "Run a script, with the files of the working directory, as a job.",
    "serve": "Serve this machine's jobs to a team.",
    "completion": "Print the completion script of bash, zsh or fish.",
}
"""Commands of the shell alone, which are not in the table: what they do."""
SYNONYMS = {
    **dict.fromkeys(("kill", "stop", "abort", "scancel"), "cancel"),
    **dict.fromkeys(("rm", "remove"), "job delete"),
    **dict.fromkeys(("ls", "jobs", "queue", "squeue"), "ps"),
    **dict.fromkeys(("status", "describe", "info"), "show"),
    **dict.fromkeys(("submit", "start", "train", "sbatch"), "run"),
    **dict.fromkeys(("get", "fetch", "pull"), "download"),
    "version": "--version",
    **{"log": "logs", "tail": "logs", "top": "watch"},
}
"""What users of other programs type: the command here."""
_VERSION = "--version"
_FLAG_SYNONYMS = {
    "": {"-V": _VERSION, "-v": _VERSION},
    "ps": dict.fromkeys(("-a", "-A", "--all"), "batchai job list"),
    "logs": {"-n": "--tail", "--lines": "--tail", "--stderr": "--err"},
}
"""The same for options, by the words of a command."""
_ONE_JOB_COMMANDS = {"watch": "batchai logs {} -f", "ps": "batchai show {}"}
"""What to write for one job, by commands that show all."""
_HELP = frozenset(o.HELP.flags)
_AZ = "az"
_TARGET_NAMES = ("name", "job", "cluster", "file")  # options that name the target of a command
_AZ_COMMANDS = (*session_specs.COMMANDS, *storage_specs.COMMANDS)
AZ_WORDS = (PROGRAM, *subcommands((), _AZ_COMMANDS))  # the first words that `%az` accepts


@dataclass(frozen=True)
class Invocation:
    """A command with its parsed arguments."""

    command: CommandSpec
    arguments: Namespace
    translations: tuple[str, ...] = ()  # words of 2017 and their translations
    is_az: bool = False  # written as a line of `az`, whose output is JSON

    @property
    def needs_confirmation(self) -> bool:
        """Whether the user must confirm before it runs."""
        return self.command.is_confirmed and not self.arguments.yes

    def notes(self, settings: Settings) -> tuple[str, ...]:
        """How a line of 2017 was translated, and its workspace and experiment."""
        if not self.translations:
            return ()
        scopes = ((name, getattr(self.arguments, name, None)) for name in ("workspace", "experiment"))
        where = ", ".join(f"{name} {value or getattr(settings, name)}" for name, value in scopes)
        return (f"Syntax of 2017: {', '.join(self.translations)}; {where}.",)


def parse(words: Sequence[str], settings: Settings | None = None) -> Invocation | DisplayText:
    """Parses a line; `-h` and a group without a command give help.

    Lines that start with a program name are accepted: `az batchai job list`, `batchai job list`.
    The settings, by default those of this process, name the backends whose options are known.

    Raises:
        UsageError: The command is unknown or its options are wrong.
    """
    if words and words[0] == PROGRAM:
        return parse(words[1:], settings)
    if words and words[0] == _AZ:
        inner = az_command_words(words[1:])
        parsed = inner if isinstance(inner, DisplayText) else parse(inner, settings)
        return parsed if isinstance(parsed, DisplayText) else replace(parsed, is_az=True)
    line = translate(words)
    path = command_path(line.words, COMMANDS)
    rest = list(line.words[len(path) :])
    command = next((command for command in COMMANDS if command.parts == path), None)
    if command is None:
        # the help of a group named alone; raises UsageError for an unknown command
        if rest and not _HELP.intersection(rest):
            raise _unknown_word(path, rest)
        return group_help(path)
    if _HELP.intersection(rest):
        return command_help(command, settings)
    return Invocation(command, arguments_of(command, rest, settings), line.changed)


def arguments_of(command: CommandSpec, words: Sequence[str], settings: Settings | None = None) -> Namespace:
    """Parses a command's options; raises UsageError for unknown or missing ones."""
    program, options = f"{PROGRAM} {command.words}", o.options_of(command, settings)
    arguments, extra = parse_options(
        options, words, make_error=lambda message: _usage_error(program, message), allow_abbreviations=True
    )
    if extra:
        raise _unknown_option(command.words, extra[0], options)
    missing = [
        option for option in options if option.is_required and getattr(arguments, option.name) in (None, [])
    ]
    if missing and not getattr(arguments, "ids", None):
        names = ", ".join("/".join(option.flags) for option in missing)
        raise _usage_error(program, f"the following arguments are required: {names}")
    return arguments


def _usage_error(program: str, message: str, guess: str = "") -> UsageError:
    hint = f"{guess} See '{program} --help'.".lstrip()
    return UsageError(f"{program}: {message}", hint=hint)


def _unknown_word(path: Sequence[str], words: Sequence[str]) -> UsageError:
    program, word = " ".join((PROGRAM, *path)), words[0]
    known = subcommands(path, COMMANDS)
    commands = f"Commands: {', '.join(known)}."
    if word.startswith("-"):
        flags = (*_HELP, *(() if path else (_VERSION,)))
        synonym = _FLAG_SYNONYMS[""].get(word) if not path else None
        guess = _suggestion(synonym) or did_you_mean(word, flags) or commands
        return _usage_error(program, f"a command is missing before {word}", guess)
    if not path and word in SHELL_WORDS:  # of a notebook: a shell has it
        line = shlex.join((PROGRAM, *words))
        guess = f"Write !{line}{', or batchai_magics.run(…)' if word == 'run' else ''}."
        return _usage_error(program, f"'{word}' is a command of a shell", guess)
    if word == "help":
        guess = _suggestion(" ".join((*path, *words[1:], "--help")))
    elif not path and PurePath(word).suffix in (".py", ".ipynb") and Path(word).is_file():
        guess = _suggestion(f"{PROGRAM} run {shlex.join(words)}")
    else:
        guess = _suggestion(_of_plural(path, words)) or _guess(path, word, known) or commands
    return _usage_error(program, f"'{word}' is not in the '{program}' command group.", guess)


def _of_plural(path: Sequence[str], words: Sequence[str]) -> str:
    """The command that is meant by the plural of its group: `job list` of `jobs list`; empty for others."""
    command = " ".join((*path, words[0].removesuffix("s"), *words[1:2]))
    return command if any(each.words == command for each in COMMANDS) else ""


def _guess(path: Sequence[str], word: str, known: Sequence[str]) -> str:
    """A suggestion for an unknown word: a synonym, a command of another group or a similar word."""
    synonym = "" if path else SYNONYMS.get(word.lower()) or _deeper_command(word)
    similar = did_you_mean(word, (*known, *(() if path else SHELL_WORDS), *legacy_words(path)))
    short_command = _short_command(word) if path == ("job",) else ""
    return _suggestion(synonym) or similar or _suggestion(short_command)


def _short_command(word: str) -> str:
    """The command for a job that has this word without `job`: `batchai logs` of `job logs`."""
    words = SYNONYMS.get(word.lower(), word)
    return next((f"{PROGRAM} {words}" for command in COMMANDS if command.words == words), "")


def _suggestion(words: str | None) -> str:
    return f'Did you mean "{words}"?' if words else ""


def _deeper_command(word: str) -> str:
    """The command that ends with this word, one of jobs first: `job wait` of `wait`."""
    matches = [command.words for command in COMMANDS if command.parts[-1] == word]
    return next((words for words in matches if words.startswith("job ")), next(iter(matches), ""))


def _unknown_option(command: str, word: str, options: Sequence[Option]) -> UsageError:
    if synonym := _FLAG_SYNONYMS.get(command, {}).get(word):
        guess = _suggestion(synonym)
    elif word.startswith("-"):
        flags = [flag for option in options for flag in option.flags if flag.startswith("--")]
        guess = did_you_mean(word.split("=")[0], flags)
    elif name := _ONE_JOB_COMMANDS.get(command):
        guess = f"It shows all jobs; for one: {name.format(shlex.quote(word))}"
    else:
        targets = [option for option in options if option.name in _TARGET_NAMES and not option.is_positional]
        guess = _suggestion(f"{targets[0].flags[-1]} {word}" if targets else None)
    return _usage_error(f"{PROGRAM} {command}", f"unrecognized arguments: {word}", guess)


def az_command_words(words: Sequence[str]) -> list[str] | DisplayText:
    """Strips `batchai` from the words of an `%az` line; without words, the help of `%az`."""
    if not words or words[0] in ("-h", "--help"):
        width = max(map(len, AZ_WORDS))
        summaries = {command.words: command.summary for command in COMMANDS}
        meanings = {PROGRAM: GROUPS[""], **summaries, **{name: text for name, text in GROUPS.items() if name}}
        rows = "\n".join(f"    {word.ljust(width)} : {meanings[word]}" for word in AZ_WORDS)
        return DisplayText(
            f"Group\n    az : What tutorials use of Azure's command line.\n\nSubgroups:\n{rows}"
        )
    first, *rest = words
    if first == PROGRAM:
        return rest
    if first in AZ_WORDS:
        return list(words)
    known = did_you_mean(first, AZ_WORDS) or f"It takes: {', '.join(AZ_WORDS)}."
    raise UsageError(f"az: '{first}' is not in the 'az' command group.", hint=known)
