"""A notebook as the script of a job: what of it is sent, its code, its parameters."""

from __future__ import annotations

import ast
import importlib.util
import json
import keyword
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from batchai_magics.errors import UsageError, did_you_mean
from batchai_magics.models import secret_masking
from batchai_magics.models.runs.labels import is_parameter
from batchai_magics.untrusted_files import parse_json

SUFFIX = ".ipynb"
PROGRAM = ".batchai/run_notebook.py"  # in a folder of its own: the project may have such a name
PROGRAM_FILES = {
    PROGRAM: Path(__file__).with_name("run_notebook.py"),
    ".batchai/secret_masking.py": Path(secret_masking.__file__),
}
NEEDED = ("ipykernel", "nbclient")  # in the Python of the ranks
_FORMAT = 4  # of notebooks since 2014
_LANGUAGES = ("python", "")


def sent_notebook(data: bytes, name: str) -> bytes:
    """A notebook without its outputs, counts and metadata: the same code is the same notebook.

    Raises:
        UsageError: It is no notebook, of an earlier format, without code, or of another language.
    """
    notebook = _read(data, name)
    cells = [
        {
            "id": f"c{number}",
            "cell_type": cell["cell_type"],
            "metadata": {"tags": _tags(cell)} if _tags(cell) else {},
            "source": _source(cell),
            **({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}),
        }
        for number, cell in enumerate(notebook["cells"], 1)
        if cell["cell_type"] in ("code", "markdown", "raw")
    ]
    if not any(cell["cell_type"] == "code" and cell["source"].strip() for cell in cells):
        raise UsageError(f"{name}: the notebook has no code")
    document = {"cells": cells, "metadata": {}, "nbformat": _FORMAT, "nbformat_minor": 5}
    return json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True).encode()


def code_of(data: bytes) -> str:
    """The code of a notebook that is sent, with the number of each cell."""
    codes = [_source(cell) for cell in json.loads(data)["cells"] if cell["cell_type"] == "code"]
    nonempty = filter(str.strip, codes)
    return "\n\n".join(f"# cell {number}\n{code}" for number, code in enumerate(nonempty, 1)) + "\n"


def parameter_notes(data: bytes, words: Iterable[str]) -> Iterator[str]:
    """Messages about parameters that change nothing: no cell names them, or one sets them again."""
    is_tagged = any("parameters" in _tags(cell) for cell in json.loads(data)["cells"])
    code = code_of(data)
    known = set(re.findall(r"[^\W\d]\w*", code))
    for name in (word.partition("=")[0] for word in words):
        if name not in known:
            yield " ".join(filter(None, (f"{name}: no cell mentions it.", did_you_mean(name, sorted(known)))))
        elif not is_tagged and re.search(rf"^{re.escape(name)}\s*(?::[^=\n]+)?=(?!=)", code, re.MULTILINE):
            yield f"{name}: a cell sets it again; give that cell the tag `parameters` for -p to win"


def parameter_words(parameters: Mapping[str, object]) -> Iterator[str]:
    """The arguments that set parameters, `lr=0.1`; raises UsageError for what is no name or no JSON."""
    for name, value in parameters.items():
        try:
            text = value if isinstance(value, str) and _is_plain(value) else json.dumps(value)
            yield checked_parameter(f"{name}={text}")
        except (TypeError, ValueError):
            hint = "Numbers, texts, True, False, None, and lists and dicts of them can be sent."
            raise UsageError(f"parameters: {name} cannot be written as JSON", hint=hint) from None


def _is_plain(text: str) -> bool:
    """Whether the program reads a text as it is, and not as JSON or as a constant of Python."""
    for read in (json.loads, ast.literal_eval):
        try:
            read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        return False
    return True


def checked_parameter(word: str) -> str:
    """A parameter `NAME=VALUE`; raises UsageError for another form."""
    name, sign, value = word.partition("=")
    if not sign or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{word}: a notebook takes parameters, as NAME=VALUE", hint="For example: -p lr=0.1")
    if not is_parameter(value):
        raise UsageError(f"the parameter {name} is too long", hint="Let the notebook read it from a file.")
    return word


def check_modules(options: Iterable[str], *, is_here: bool) -> None:
    """Checks that the ranks' Python has what notebooks need, where that is this Python.

    Raises:
        UsageError: Something is missing; the hint has the options that install it.
    """
    if not is_here or {option.partition("=")[0] for option in options} & {"--python", "--image", "--with"}:
        return
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        options = " ".join(f"--with {name}" for name in NEEDED)
        raise UsageError(
            f"{sys.executable} has no {' and no '.join(missing)}, which notebooks need", hint=f"Add {options}"
        )


def _read(data: bytes, name: str) -> dict[str, Any]:
    try:
        notebook = parse_json(data)
        is_notebook = isinstance(notebook, dict) and isinstance(notebook.get("nbformat"), int)
    except ValueError:
        is_notebook = False
    if not is_notebook:
        raise UsageError(f"{name} is not a notebook: it has no JSON with nbformat")
    cells = notebook.get("cells")
    if notebook["nbformat"] != _FORMAT or not isinstance(cells, list) or not all(map(_is_cell, cells)):
        raise UsageError(
            f"{name}: the notebook has the format {notebook['nbformat']}; a job runs format {_FORMAT}",
            hint=f"Convert it: jupyter nbconvert --to notebook {name}",
        )
    metadata = notebook.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = kernel.get("language") if isinstance(kernel, dict) else ""
    if isinstance(language, str) and language.lower() not in _LANGUAGES:
        raise UsageError(f"{name}: the notebook is written in {language.lower()}; a job runs Python")
    return dict(notebook)


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return False
    source = cell.get("source")
    return isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in source)
    )


def _source(cell: Mapping[str, Any]) -> str:
    source: str | Sequence[str] = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _tags(cell: Mapping[str, Any]) -> list[str]:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
