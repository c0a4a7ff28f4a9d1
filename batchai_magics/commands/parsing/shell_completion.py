"""Completion in shells: the script for each, and the candidates that it asks this program for.

The scripts hold no words of their own: like kubectl's and gh's, they pass the words of the line on. So
live names complete too, and a script fits every later version.
"""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.backends.base.backend_registry import load_settings
from batchai_magics.commands.command_context import Context
from batchai_magics.commands.parsing.command_completion import NameLookup, candidates, expected_in_line
from batchai_magics.commands.parsing.command_parser import SHELL_WORDS
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models.backend_options import declared_by
from batchai_magics.options.option import DisplayText, Expected, NameKind, candidates_after

CANDIDATES = "candidates"  # `batchai completion candidates -- WORD…`, which the scripts run
_TIMEOUT_S = 1.0  # of live names: a shell waits longer for TAB than a notebook
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
    names = NameLookup(lambda: context, timeout_s=_TIMEOUT_S).names(expected)
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
