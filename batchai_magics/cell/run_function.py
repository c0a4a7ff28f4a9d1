"""Runs the script of a function as `run_cell.py` does, with the lines of the files that its parts are from.

A standalone program that uses only the standard library; it is uploaded beside the script and `run_cell.py`,
whose content is part of what identifies a cell and therefore stays as it is. A comment `#line 12 "train.py"`
says where the definition below it is from: tracebacks, stacks and `inspect` name that place.
"""

from __future__ import annotations

import builtins
import json
import linecache
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

_PLACE = re.compile(r'#line (\d+) (".*")$')


class _SourceBlock(NamedTuple):
    """Lines of a script and where they are from."""

    lines: range
    file: str
    line: int  # of the first one


def main() -> None:
    """Runs the script as `__main__` and exits as it does."""
    import run_cell  # type: ignore[import-not-found]  # beside this program

    run_cell.compile = compile_placed
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = traceback.print_exception  # it finds lines that are in no file
    run_cell.main()


def compile_placed(source: bytes, *args: Any, **options: Any) -> CodeType:
    """Compiles a script as `compile` does; its definitions have the files and lines that `#line` names."""
    lines = source.decode().splitlines()
    blocks = list(_blocks(lines))
    for block in sorted(blocks, key=lambda block: block.line):
        # Tracebacks and `inspect` look here for the lines of a file.
        known = linecache.cache.get(block.file)
        texts = list(known[2]) if known and len(known) == 4 else []
        texts += ["\n"] * (block.line - 1 - len(texts))
        texts[block.line - 1 :] = [f"{lines[number - 1]}\n" for number in block.lines]
        # without a time, it is never checked
        linecache.cache[block.file] = (len(texts), None, texts, block.file)
    code: CodeType = builtins.compile(source, *args, **options)
    parts = [_placed(part, blocks) if isinstance(part, CodeType) else part for part in code.co_consts]
    return code.replace(co_consts=tuple(parts))


def _blocks(lines: Sequence[str]) -> Iterator[_SourceBlock]:
    matches = [(at, match) for at, line in enumerate(lines) if (match := _PLACE.match(line))]
    ends = [*(at for at, _ in matches[1:]), len(lines)]
    for number, (at, match) in enumerate(matches):
        yield _SourceBlock(range(at + 2, ends[number] + 1), json.loads(match[2]), int(match[1]))


def _placed(code: CodeType, blocks: Sequence[_SourceBlock]) -> CodeType:
    """The code, and all code in it, with the file and the line of the block that it is in."""
    block = next((block for block in blocks if code.co_firstlineno in block.lines), None)
    parts = [_placed(part, blocks) if isinstance(part, CodeType) else part for part in code.co_consts]
    if block is None:
        return code
    line = code.co_firstlineno - block.lines[0] + block.line
    return code.replace(co_consts=tuple(parts), co_filename=block.file, co_firstlineno=line)


if __name__ == "__main__":
    main()
