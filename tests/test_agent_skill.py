"""`batchai agent-skill`: the skill is what agents load, and each command in it runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from batchai_magics import agent_skill
from batchai_magics.errors import ConflictError, UsageError
from tests.patience import PATIENCE_S

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)]+)\)")
TRAIN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
for epoch in range(1, parser.parse_args().epochs + 1):
    print(f"epoch {epoch} loss {1 / epoch:.3f}", flush=True)
"""
HUNG = "import threading\nprint('up', flush=True)\nthreading.Event().wait()\n"


def texts(folder):
    """The files of the skill by name, as they are written."""
    agent_skill.main([str(folder)])
    return {name: (folder / agent_skill.NAME / name).read_text() for name in agent_skill.FILES}


def test_the_head_is_what_agents_choose_a_skill_by(tmp_path):
    _, head, _ = texts(tmp_path)["SKILL.md"].split("---\n", 2)
    facts = yaml.safe_load(head)
    assert set(facts) == {"name", "description"}
    assert facts["name"] == agent_skill.NAME
    assert len(facts["description"]) <= 1024


def test_each_reference_exists(tmp_path):
    written = texts(tmp_path)
    links = [link for text in written.values() for link in LINK.findall(text)]
    assert sorted(links) == sorted(name for name in written if name != "SKILL.md")


def test_a_file_that_differs_is_kept_without_force(tmp_path):
    path = agent_skill.write(tmp_path, is_forced=False)
    path.write_text("mine")
    (path.parent / "references/failures.md").unlink()
    with pytest.raises(ConflictError, match="differs"):
        agent_skill.main([str(tmp_path)])
    assert path.read_text() == "mine"
    assert not (path.parent / "references/failures.md").exists()
    agent_skill.main([str(tmp_path), "--force"])
    assert path.read_text().startswith("---")


@pytest.mark.parametrize("words", [["a", "b"], ["--all"]])
def test_a_wrong_line_is_refused(words):
    with pytest.raises(UsageError, match="not a valid argument"):
        agent_skill.main(words)


class Shell:
    """A shell in a folder of its own, in which `batchai` is this package's."""

    def __init__(self, folder):
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        program = programs / "batchai"
        program.write_text(f"#!{sys.executable}\nfrom batchai_magics.cli import program; program()\n")
        program.chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        self.env = {**os.environ, "PATH": path, "BATCHAI_HOME": str(folder / "home")}

    def run(self, code):
        """Runs some commands, each of which must succeed, and returns what they print."""
        words = ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (code, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def shell(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "hung.py").write_text(HUNG)
    return Shell(tmp_path)


@pytest.mark.slow
def test_each_command_of_the_skill_runs_as_it_stands(shell, tmp_path):
    skill, failures, compare = texts(tmp_path / "skills").values()
    submitted = [shell.run(block) for block in BLOCK.findall(skill)]
    assert "train.py" in submitted[0]
    assert submitted[1].strip() == "digits"
    assert '"state": "succeeded"' in submitted[3]
    line = "batchai run train.py --name {} --toolkit custom --detach"
    (tmp_path / "train.py").write_text(f"raise ValueError('no data')\n{TRAIN}")
    shell.run(line.format("broken"))
    shell.run("batchai job wait -n broken || true")
    (tmp_path / "train.py").write_text(TRAIN)
    shell.run(f"{line.format('broken')}; batchai job wait -n broken-2")
    shell.run("batchai run hung.py --name hung --toolkit custom --detach")
    shell.run("until batchai logs hung | grep up; do :; done")
    failed, changed, stuck, slow = (shell.run(block) for block in BLOCK.findall(failures))
    assert "no data" in failed
    assert "-raise ValueError('no data')" in changed
    assert "hung.py:3" in stuck
    assert "Rank 0 waits 100 % of the time, at hung.py:3" in slow
    shell.run("batchai cancel hung")
    shell.run("batchai run train.py --name digits --new -- --epochs 2")
    rows, labels = (shell.run(block) for block in BLOCK.findall(compare))
    assert "digits-2" in rows
    assert labels.strip().endswith("digits")
