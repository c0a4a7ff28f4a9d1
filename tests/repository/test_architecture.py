"""docs/architecture.md shows the package as it is."""

import importlib
import re
from pathlib import Path

import pytest

from tests.test_layers import ORDER

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "batchai_magics"
TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
MADE = {"__pycache__", "static"}  # by the interpreter and by the build


def part(name):
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", TEXT, re.DOTALL).group(1)


def test_every_folder_of_the_package_is_told_and_no_other():
    told = re.findall(r"^\| `([\w/]+)` \|", part("folders"), re.MULTILINE)
    files = [path for path in PACKAGE.rglob("*.*") if not MADE & set(path.parts)]
    real = {str(path.parent.relative_to(PACKAGE)) for path in files if path.is_file()} - {"."}
    assert told == sorted(real)


def test_the_layers_are_those_that_are_held_to():
    words = part("layers").removeprefix("```text").replace("```", "").split()
    assert words == ORDER.split()


@pytest.mark.parametrize("step", re.findall(r'--.*?\|"([\w.]+)"\|', TEXT))
def test_every_step_of_the_flows_exists(step):
    words = step.split(".")
    for count in range(len(words), 0, -1):
        try:
            place = importlib.import_module(".".join(["batchai_magics", *words[:count]]))
        except ModuleNotFoundError:
            continue
        for name in words[count:]:
            place = getattr(place, name)
        return
    pytest.fail(f"no module of {step}")


@pytest.mark.parametrize("maker", re.findall(r"^\| [^|]+ \| `([\w.]+)` \|", part("forms"), re.MULTILINE))
def test_every_form_of_a_job_is_made_where_it_says(maker):
    test_every_step_of_the_flows_exists(maker)


def test_modules_named_at_the_top_lie_there():
    (line,) = re.findall(r"^The modules at the top level are (.*?)\. A", TEXT, re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`(\w+)` \(", line.replace("\n", " ")))
    assert named == {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
