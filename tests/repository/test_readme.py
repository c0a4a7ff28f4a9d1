import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from batchai_magics.cell.cell_options import read_options
from batchai_magics.commands.handlers.run_command import read_line, run_options
from batchai_magics.commands.parsing import command_parser
from batchai_magics.commands.parsing.command_parser import SHELL_WORDS
from batchai_magics.commands.specs.command_table import COMMANDS
from batchai_magics.jobs.job_handle import Job
from tests.patience import PATIENCE_S
from tests.server.clients import packages_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOW_TO = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]


def fences(text):
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


FENCES = fences(README)
SHELL = [
    line.partition("#")[0].split() for kind, body in FENCES if kind == "sh" for line in body.splitlines()
]

PROGRAM = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in {cells}:
    shell.run_cell(cell).raise_error()
print("-- log --")
print(shell.user_ns["job"].wait().log(), end="")
"""


@pytest.mark.parametrize("page", ["options", "commands", "settings", "add-a-runner", "json-output"])
def test_the_tables_are_those_of_the_package(page):
    updated = runpy.run_path(str(ROOT / "docs/readme.py"))["updated"]
    text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    assert updated(text) == text, "python docs/readme.py brings the page up to date"


def test_every_make_target_named_exists():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = [words[1] for words in SHELL if words[0] == "make"]
    assert named
    assert set(named) <= set(targets)


def test_every_shell_command_is_one_that_is_explained():
    assert {words[0] for words in SHELL} <= {"make", "pip", "batchai"}


def test_every_extra_to_install_exists():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"pip install '\.\[(\w+)\]'", README)
    assert extras
    assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras)


def test_every_batchai_command_named_exists():
    text = README + HOW_TO
    lines = re.findall(r"(?:%|`|^)batchai ((?:[a-z]+(?:-[a-z]+)* ?)+)", text, re.MULTILINE)
    known = {command.words for command in COMMANDS} | {*SHELL_WORDS, "az"}
    starts = [[" ".join(line.split()[:length]) for length in (1, 2, 3)] for line in lines]
    assert len(starts) > 20
    assert [words[-1] for words in starts if not known & set(words)] == []


def lines_shown(page):
    """The magics and commands in the code of a page, without their comments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```\w*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    lines = re.findall(r"^ *((?:%%batchai_job|%?batchai|%az) .*)$", code.replace("\\\n", " "), re.MULTILINE)
    return [shlex.split(re.sub(r"\s+#.*", "", line)) for line in lines]


def check(words):
    """Raises UsageError if the words of a line are not a valid command."""
    program, *rest = words
    if program == "%%batchai_job":
        read_options(rest, dict.fromkeys(rest, "a secret"))
    elif rest[0] == "run":
        read_options(read_line(rest[1:], run_options()).options, {})
    elif rest[0] not in SHELL_WORDS:
        command_parser.parse(["az", *rest] if program == "%az" else rest)


@pytest.mark.parametrize("page", [page for page in PAGES if lines_shown(page)])
def test_every_line_shown_is_valid(page):
    for words in lines_shown(page):
        check(words)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    file = ROOT / page
    targets = re.findall(r"\]\(([^)]+)\)", file.read_text(encoding="utf-8"))
    inside = [target.partition("#")[0] for target in targets if not target.startswith("https://")]
    assert [target for target in inside if target and not (file.parent / target).exists()] == []


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 140


@pytest.mark.parametrize("path", re.findall(r"\b((?:notebooks|docs|\.ci)/[\w./-]+)", README))
def test_every_file_named_exists(path):
    assert (ROOT / path).exists()


LOSSES = """
losses = shell.user_ns["job"].metrics().groupby("step")["loss"].agg(["count", "mean"])
print("-- losses --", losses.to_json(orient="values"), sep="\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_cell_shown_trains_a_network_with_what_is_installed(library):
    cells = [body for kind, body in FENCES if kind == "python"][:2]
    path = {"PYTHONPATH": packages_of("torch")} if library == "torch" else {}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(cells=cells) + LOSSES],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
        env={**os.environ, **path},
    )
    losses = json.loads(done.stdout.partition("-- losses --\n")[2])
    assert [count for count, _ in losses] == [4] * 100  # of each process
    assert losses[-1][1] < losses[0][1] / 10


@pytest.mark.slow
def test_the_cell_about_numbers_runs(tmp_path):
    (cell,) = [body for kind, body in fences(HOW_TO) if kind == "python" and "%%batchai_job numbers " in body]
    program = (
        PROGRAM.format(cells=["%load_ext batchai_magics", cell]) + "\nprint(shell.user_ns['job'].metrics())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
        cwd=tmp_path,
        env={**os.environ, "BATCHAI_HOME": str(tmp_path / "home")},
    )
    assert "accuracy" in done.stdout


def test_a_toolkit_of_pytorch_has_the_variables_that_are_named():
    (named,) = re.findall(r"^Each process has (.+?), as under", HOW_TO, re.MULTILINE)
    source = (ROOT / "batchai_magics/launch/toolkits.py").read_text(encoding="utf-8")
    assert all(f'"{name}"' in source for name in re.findall(r"`([A-Z_]+)`", named))


def test_what_a_job_is_said_to_have_it_has():
    (_, _, body) = [body for kind, body in FENCES if kind == "python"][:3]
    names = re.findall(r"^job\.(\w+)\(\)", body, re.MULTILINE)
    assert names
    assert all(callable(getattr(Job, name)) for name in names)
