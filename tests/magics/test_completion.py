"""What the Tab key offers on lines and in cells, quickly from the first time on."""

from __future__ import annotations

import subprocess
import sys

import pytest
from IPython.core.completer import provisionalcompleter

from tests.world import until


def offers(shell, text):
    with provisionalcompleter():
        return [completion.text for completion in shell.Completer.completions(text, len(text))]


def test_tab_completes_words_options_and_values(shell):
    assert offers(shell, "%batchai job fi") == ["file"]
    assert offers(shell, "%az batchai job list --out") == ["--output"]
    assert offers(shell, "found = %batchai job list -o ta") == ["table"]
    assert offers(shell, "%%batchai_job x --toolkit pyt") == ["pytorch"]
    assert offers(shell, "%%batchai_job x --nod") == ["--nodes"]


def test_tab_completes_live_names_and_variables(run, shell):
    run("%batchai cluster create -n small -s Standard_D2 -t 0\nsmall_one = 1")
    until(lambda: offers(shell, "%batchai cluster show -n s") == ["small"])
    until(lambda: offers(shell, "%%batchai_job x --cluster s") == ["small"])
    assert offers(shell, "%%batchai_job x --nodes {small_") == ["{small_one}"]


def test_tab_offers_no_python_names_on_a_line(shell):
    assert offers(shell, "%batchai job show -n pri") == ["pri"]


def test_tab_offers_no_options_in_the_script_of_a_cell(run, shell):
    run("number_of_things = 1")
    assert "number_of_things" in offers(shell, "%%batchai_job x\nnumber_of")
    assert "--nodes" not in offers(shell, "%%batchai_job x\n--no")


def test_tab_completes_az(run, shell):
    assert offers(shell, "%az gr") == ["group"]
    assert offers(shell, "%az storage fi") == ["file"]
    assert offers(shell, "%az batchai job fi") == ["file"]
    assert offers(shell, "%az nonsense ") == [""]
    run("%az storage share create -n data")
    until(lambda: offers(shell, "%az storage file list -s da") == ["data"])
    run("%az group create -n mine")
    until(lambda: offers(shell, "%az group show -n ") == ["mine"])


FIRST_TAB = """
import sys
from batchai_magics.config import Settings
from batchai_magics.magics.magic_commands import parse_line, schedule_warm_up
schedule_warm_up().join()
warm = set(sys.modules)
for line in ("%%batchai_job x --toolkit ", "%batchai job show -n "):
    assert parse_line(line, is_first=True, settings=Settings())
print(*sorted(name for name in set(sys.modules) - warm if name.startswith("batchai_magics")))
"""


@pytest.mark.slow
def test_the_first_tab_after_it_imports_nothing_of_ours() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_TAB], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
