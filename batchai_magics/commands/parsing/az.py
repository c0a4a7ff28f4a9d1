"""What `%az` takes: `batchai …`, and the groups of `az` that tutorials use beside it."""

from __future__ import annotations

from collections.abc import Sequence

from batchai_magics.commands.parsing.catalog import COMMANDS, GROUPS
from batchai_magics.commands.parsing.rows import azure, files, storage
from batchai_magics.commands.parsing.tree import PROGRAM, below
from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.options.help import Text

_OWN = (*azure.COMMANDS, *storage.COMMANDS, *files.COMMANDS)
WORDS = (PROGRAM, *below((), _OWN))  # the first words that `%az` knows


def of_az(words: Sequence[str]) -> list[str] | Text:
    """The words for the one command tree, or the list of what `%az` takes."""
    if not words or words[0] in ("-h", "--help"):
        return _help()
    first, *rest = words
    if first == PROGRAM:
        return rest
    if first in WORDS:
        return list(words)
    known = did_you_mean(first, WORDS) or f"It takes: {', '.join(WORDS)}."
    raise UsageError(f"az: '{first}' is not in the 'az' command group.", hint=known)


def _help() -> Text:
    width = max(map(len, WORDS))
    summaries = {command.words: command.summary for command in COMMANDS}
    told = {PROGRAM: GROUPS[""], **summaries, **{name: text for name, text in GROUPS.items() if name}}
    rows = "\n".join(f"    {word.ljust(width)} : {told[word]}" for word in WORDS)
    return Text(f"Group\n    az : What tutorials use of Azure's command line.\n\nSubgroups:\n{rows}")
