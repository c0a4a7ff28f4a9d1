"""What depends on who publishes the package follows from one setting."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PUBLISH = runpy.run_path(str(ROOT / ".ci/publish.py"))
OWNER = PUBLISH["owner_of"]((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_files_are_those_of_the_owner_that_is_set():
    for name, text in PUBLISH["as_owner"](OWNER).items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, (
            "make publish-as OWNER=… brings it up to date"
        )


def test_an_owner_appears_in_the_badge_and_in_every_address():
    files = PUBLISH["as_owner"]("some-lab")
    urls = tomllib.loads(files["pyproject.toml"])["project"]["urls"]
    assert urls["Source"] == "https://github.com/some-lab/batchai_magics"
    assert urls["Documentation"] == "https://some-lab.github.io/batchai_magics/"
    assert all("some-lab" in url for url in urls.values())
    (link,) = re.findall(r"badge_logo\.svg\)\]\((\S+)\)", files["README.md"])
    assert link.startswith("https://mybinder.org/v2/gh/some-lab/batchai_magics/HEAD?labpath=binder%2F")
    assert (ROOT / link.partition("labpath=")[2].replace("%2F", "/")).exists()
    assert "some-lab/batchai_magics/security" in files[".github/ISSUE_TEMPLATE/config.yml"]


def test_without_an_owner_no_address_is_dead():
    files = PUBLISH["as_owner"]("")
    assert "urls" not in tomllib.loads(files["pyproject.toml"])["project"]
    assert "after you have pushed the repository" in files["README.md"]
    assert not [name for name, text in files.items() if "github.com//" in text or "mybinder.org/v2" in text]


def test_a_release_has_the_version_of_its_tag():
    assert '__version__ = "1.2.3rc1"' in PUBLISH["as_version"]("1.2.3rc1")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["owner", "a/b"], ["owner", 'x"'], ["version", "v1"], []])
def test_what_is_no_name_or_version_is_refused(words):
    command = [sys.executable, ROOT / ".ci/publish.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "publish.py owner NAME" in done.stderr
