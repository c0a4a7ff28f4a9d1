"""What loading the extension imports in the background, so that the first Tab is quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
