"""The programs of nodes: their files exist, and the command that starts one names the setting to correct."""

from __future__ import annotations

import subprocess
import sys

import pytest

from batchai_magics.backends.node.node_programs import start_words


@pytest.mark.slow
@pytest.mark.parametrize("section", ["slurm", "ray"])
def test_a_node_that_does_not_see_the_programs_names_the_setting(section: str) -> None:
    words = start_words(sys.executable, "none", "/no/where", section=section)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"this node does not see /no/where: set {section}.home to a folder that all nodes share"
    )
