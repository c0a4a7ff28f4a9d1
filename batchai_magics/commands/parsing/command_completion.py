"""TAB completion of command lines, in notebooks and shells: commands, options, paths, names of resources."""

from __future__ import annotations

import threading
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.parsing.command_parser import SHELL_WORDS
from batchai_magics.commands.parsing.dialect_2017 import translate
from batchai_magics.commands.specs.command_table import COMMANDS
from batchai_magics.commands.specs.shared_options import command_path, options_of, subcommands
from batchai_magics.errors import UsageError, did_you_mean, visible
from batchai_magics.models.backend_options import declared_by
from batchai_magics.models.resource_ids import Kind
from batchai_magics.options.option import DisplayText, Expected, NameKind, candidates_after

if TYPE_CHECKING:
    from batchai_magics.backends.base import Storage
    from batchai_magics.commands.command_context import Context
    from batchai_magics.config import Settings

_TIMEOUT_S = 0.03  # TAB must respond within 50 ms
CANDIDATES = "candidates"  # `batchai completion candidates -- WORD…`, which the scripts run
_SHELL_TIMEOUT_S = 1.0  # of live names: a shell waits longer for TAB than a notebook
_BASH = """\
_batchai() {
    local IFS=$'\\n'
    COMPREPLY=($(batchai completion candidates -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace; fi
}
complete -o default -F _batchai batchai
"""
_ZSH = """\
#compdef batchai
_batchai() {
    local -a found folders
    found=("${(@f)$(batchai completion candidates -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    folders=("${(@M)found:#*/}")
    compadd -S '' -- "${(@)folders:#}"
    compadd -- "${(@)${(@)found:#*/}:#}"
}
if (( ! $+functions[compdef] )); then autoload -Uz compinit && compinit; fi
compdef _batchai batchai
"""
_FISH = """\
function __batchai_candidates
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    batchai completion candidates -- $words[2..-1] "$word" 2>/dev/null
end
complete -c batchai -f -a '(__batchai_candidates)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
_HELP = f"""\
Command
    batchai completion : {SHELL_WORDS["completion"]}

Add its line to the shell's start-up file:
    bash  ~/.bashrc                    eval "$(batchai completion bash)"
    zsh   ~/.zshrc                     eval "$(batchai completion zsh)"
    fish  ~/.config/fish/config.fish   batchai completion fish | source"""


def expected_in_line(words: Sequence[str], settings: Settings | None = None) -> Expected:
    """What may follow these words on a `batchai` line."""
    words = translate(words).words
    path = command_path(words, COMMANDS)
    command = next((c for c in COMMANDS if c.parts == path), None)
    if command:
        return candidates_after(words[len(path) :], options_of(command, settings))
    return Expected(subcommands(path, COMMANDS)) if len(path) == len(words) else Expected()


def candidates(expected: Expected, fragment: str, live_names: Sequence[str]) -> list[str]:
    """The candidates that start with `fragment`."""
    paths = matching_paths(fragment) if expected.live is NameKind.PATH else ()
    words = (*expected.words, *live_names, *paths)
    matching = (word for word in dict.fromkeys(words) if word.startswith(fragment))
    return [word for word in matching if visible(word) == word]  # without terminal control characters


def live_names_of(context: Context, live: NameKind, arguments: Namespace) -> Sequence[str]:
    """The names of existing resources of this kind, in the scope given on the line. Queries the backend."""
    if live in _NAME_SOURCES:
        return _NAME_SOURCES[live](context, arguments)
    workspace = context.workspace(arguments)
    parent = context.experiment(arguments) if live is NameKind.JOB else workspace
    return [resource.id.name for resource in context.backend.list(parent, Kind(live.value))]


def _outputs(context: Context, arguments: Namespace) -> list[str]:
    return [file.path for file in context.backend.files(context.target(arguments, Kind.JOB))]


def _results(context: Context, arguments: Namespace) -> list[str]:
    from batchai_magics.jobs.job_handle import Job  # imports the log readers

    return [file.display_path for file in Job(context.backend, context.target(arguments, Kind.JOB)).files()]


def _nodes(context: Context, arguments: Namespace) -> list[str]:
    is_of_job = getattr(arguments, "cluster", None) is None
    id = context.target(arguments, Kind.JOB) if is_of_job else context.cluster(arguments)
    return [node.id for node in context.backend.nodes(id)]


def _buckets(context: Context, arguments: Namespace, storage: Storage) -> list[str]:
    from batchai_magics.commands.azure.storage_bucket import bucket_names

    return bucket_names(context, arguments, storage)


def _sweeps(context: Context, arguments: Namespace) -> list[str]:
    from batchai_magics.commands.handlers.sweep_commands import files_of  # loads the models

    return files_of(context, arguments).names()


_NAME_SOURCES: dict[NameKind, Callable[[Context, Namespace], Sequence[str]]] = {
    NameKind.OUTPUT: _outputs,
    NameKind.RESULT: _results,
    NameKind.NODE: _nodes,
    NameKind.SWEEP: _sweeps,
    NameKind.GROUP: lambda context, arguments: [group.name for group in context.groups.list()],
    NameKind.ACCOUNT: lambda context, arguments: [account.name for account in context.accounts.list()],
    NameKind.SHARE: lambda context, arguments: _buckets(context, arguments, context.storage),
    NameKind.CONTAINER: lambda context, arguments: _buckets(context, arguments, context.containers),
}


def matching_paths(fragment: str) -> list[str]:
    """The local files and folders whose path starts with `fragment`."""
    folder, _, start = fragment.rpartition("/")
    parent = Path(folder or ("/" if fragment.startswith("/") else ".")).expanduser()
    if not parent.is_dir():
        return []
    base = fragment.removesuffix(start)
    items = sorted(item for item in parent.iterdir() if item.name.startswith(start))
    return [f"{base}{item.name}{'/' if item.is_dir() else ''}" for item in items]


class NameLookup:
    """Looks up names in the background, so that a slow backend or import never blocks the keyboard.

    `find_context` returns the current settings and backend, which may be slow too.
    """

    def __init__(self, find_context: Callable[[], Context], *, timeout_s: float = _TIMEOUT_S) -> None:
        self._find_context = find_context
        self._timeout_s = timeout_s
        self._cache: dict[str, Sequence[str]] = {}

    def names(self, expected: Expected) -> Sequence[str]:
        """The names, or on timeout the cached ones of the previous lookup; the next TAB has the new ones."""
        if expected.live in (NameKind.NOTHING, NameKind.PATH):
            return ()
        key = f"{expected.live} {expected.arguments}"
        lookup = threading.Thread(
            target=self._look_up, args=(key, expected), name="batchai-completion", daemon=True
        )
        lookup.start()
        lookup.join(self._timeout_s)
        return self._cache.get(key, ())

    def _look_up(self, key: str, expected: Expected) -> None:
        try:
            self._cache[key] = list(live_names_of(self._find_context(), expected.live, expected.arguments))
        except Exception:  # noqa: BLE001  any failure means no candidates; running the line reports it
            self._cache[key] = ()


def completion(words: Sequence[str]) -> DisplayText:
    """What `batchai completion` prints: a script, or for the scripts the candidates for the last word.

    Raises:
        UsageError: There is no script for this shell.
    """
    if list(words[:2]) == [CANDIDATES, "--"]:
        return DisplayText("\n".join(line_candidates(words[2:])))
    if not words or words[0] in ("-h", "--help"):
        return DisplayText(_HELP)
    if len(words) > 1 or words[0] not in SCRIPTS:
        hint = did_you_mean(words[0], SCRIPTS) or f"Available for: {', '.join(SCRIPTS)}."
        raise UsageError(f"there is no completion for {' '.join(words)}", hint=hint)
    return DisplayText(SCRIPTS[words[0]].rstrip("\n"))


def line_candidates(words: Sequence[str]) -> list[str]:
    """The candidates for the last of the words after `batchai`, which may be empty."""
    # bash splits `--toolkit=mpi` at its sign
    *words_before, fragment = [word for word in words if word != "="] or [""]
    context = Context(load_settings())
    expected = _expected(words_before, context)
    names = NameLookup(lambda: context, timeout_s=_SHELL_TIMEOUT_S).names(expected)
    return candidates(expected, fragment, names)


def _expected(words: Sequence[str], context: Context) -> Expected:
    if words[:1] == ["run"]:
        return _expected_of_run(words[1:], context)
    if words[:1] == ["completion"]:
        return Expected(tuple(SCRIPTS) if len(words) == 1 else ())
    if words[:1] in (["serve"], ["mcp"], ["agent-skill"]):
        return Expected()
    expected = expected_in_line(words, context.settings)
    return expected if words else Expected((*expected.words, *SHELL_WORDS))


def _expected_of_run(words: Sequence[str], context: Context) -> Expected:
    """The options of `run`, and files where the script or one of its arguments may come."""
    from batchai_magics.commands.handlers.run_command import run_options

    if "--" in words:
        return Expected(live=NameKind.PATH)
    options = run_options(declared_by(context.settings.sections.values()))
    expected = candidates_after(words, options)
    is_flag = any(word.startswith("--") for word in expected.words)
    return Expected(expected.words, NameKind.PATH) if is_flag else expected
