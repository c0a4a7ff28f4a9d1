import os
import re
from pathlib import Path

import pytest

# Importing repo2docker warns about one of its own imports.
pytestmark = pytest.mark.filterwarnings("ignore:pythonjsonlogger:DeprecationWarning")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pack(monkeypatch):
    """The build that repo2docker chooses for this repository; no image is made."""
    from repo2docker.app import Repo2Docker

    monkeypatch.chdir(ROOT)
    app = Repo2Docker()
    packs = (kind(app.base_image) for kind in app.buildpacks)
    return next(pack for pack in packs if pack.detect())


def test_binder_builds_a_python_that_the_package_supports(pack):
    assert type(pack).__name__ == "PythonBuildPack"
    assert pack.binder_dir == "binder"
    assert tuple(map(int, pack.python_version.split(".")[:2])) >= (3, 10)


def test_binder_installs_this_package_with_its_demo(pack):
    scripts = "\n".join(script for _, script in pack.get_assemble_scripts())
    assert "-r binder/requirements.txt" in scripts.replace('"', "")
    assert (ROOT / "binder/requirements.txt").read_text().split() == [".[demo]"]


def test_binder_runs_post_build(pack):
    (script,) = pack.get_post_build_scripts()
    assert script == "binder/postBuild"
    assert os.access(ROOT / script, os.X_OK)


def test_the_dockerfile_copies_the_sources_installs_them_and_then_runs_post_build(pack):
    pack.platform = "linux/amd64"  # of Binder
    text = pack.render()
    sources = text.index("COPY --chown=1000:1000 src/ ${REPO_DIR}")
    install = text.index('pip install --no-cache-dir -r "binder/requirements.txt"')
    after = text.index("RUN ./binder/postBuild")
    assert sources < install < after
    assert not re.search(r"^RUN .*npm", text, re.MULTILINE)  # the build takes node from PyPI
