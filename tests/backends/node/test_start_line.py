"""The command that starts a program of nodes names the setting to correct, of the engine that starts it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from batchai_magics.backends.node.start_line import start_words

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("section", ["slurm", "ray"])
def test_a_node_that_does_not_see_the_programs_names_the_setting(section: str) -> None:
    words = start_words(sys.executable, "none", "/no/where", section=section)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"this node does not see /no/where: set {section}.home to a folder that all nodes share"
    )
