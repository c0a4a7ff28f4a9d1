"""`batchai agent-skill`: writes a skill, from which a coding agent learns the `batchai` command."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from batchai_magics.errors import ConflictError, StorageError, UsageError

NAME = "batchai-jobs"
DEFAULT_FOLDER = ".agents/skills"
FILES = ("SKILL.md", "references/failures.md", "references/compare.md")
USAGE = f"""batchai agent-skill [DIR] [--force]

Writes the skill {NAME} to a folder of skills: how a coding agent submits, watches, debugs, compares and
stops jobs with this command. DIR is {DEFAULT_FOLDER} by default; Claude Code reads .claude/skills.

    --force : Replace files of that name that differ.
"""


def main(words: Sequence[str]) -> int:
    """Writes the skill and prints its path; returns the exit code.

    Raises:
        UsageError: The line is wrong.
        ConflictError: A file of the skill is there and differs, without `--force`; nothing is written then.
        StorageError: The folder cannot be written.
    """
    if set(words) & {"-h", "--help"}:
        print(USAGE)
        return 0
    given = [word for word in words if word != "--force"]
    if len(given) > 1 or any(word.startswith("-") for word in given):
        text = f"batchai agent-skill: {' '.join(given)!r} is not a valid argument"
        raise UsageError(text, hint=USAGE.partition("\n")[0])
    print(write(Path(given[0] if given else DEFAULT_FOLDER), is_forced="--force" in words))
    return 0


def write(folder: Path, *, is_forced: bool) -> Path:
    """Writes the skill to a folder of skills, and returns the path of its main file."""
    source = files("batchai_magics.agent_skill")
    texts = {folder / NAME / name: (source / name).read_text(encoding="utf-8") for name in FILES}
    try:
        changed = [path for path, text in texts.items() if path.exists() and path.read_text("utf-8") != text]
        if changed and not is_forced:
            hint = "--force replaces it."
            raise ConflictError(f"{changed[0]} exists and differs", code="FileExists", hint=hint)
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{folder} cannot be written: {error}", code="FileUnwritable") from error
    return folder / NAME / FILES[0]
