"""docs/architecture.md shows the package as it is."""

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from batchai_magics.backends.base.backend_registry import current_settings, open_backend
from batchai_magics.cell import Notebook, parse
from batchai_magics.jobs.submit import submit
from batchai_magics.models.cluster_spec import ClusterSpec, ManualScale, ScaleSettings, UserAccountSettings
from batchai_magics.models.resource_ids import Kind, workspace_id
from tests.default_resources import ensure_defaults
from tests.test_layers import ORDER

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "batchai_magics"
TEXT = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
SOURCES = f"{PACKAGE}/"
MARK = "mark-of-the-arguments"  # what carries it describes the job
DEPTH = 8
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


def values_in(value: object) -> list[Any]:
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    if fields := getattr(type(value), "model_fields", None):
        return [getattr(value, name, None) for name in fields]
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def has_mark(value: object, depth: int = DEPTH) -> bool:
    if isinstance(value, str | bytes):
        return (MARK if isinstance(value, str) else MARK.encode()) in value
    return depth > 0 and any(has_mark(part, depth - 1) for part in values_in(value))


def is_form(value: object) -> bool:
    kind = type(value)
    is_value = dataclasses.is_dataclass(kind) or hasattr(kind, "_fields") or hasattr(kind, "model_fields")
    return kind.__module__.startswith("batchai_magics.") and is_value


def parts_of(value: object, depth: int = DEPTH) -> Iterator[type]:
    for each in values_in(value):
        if is_form(each):
            yield type(each)
        if depth:
            yield from parts_of(each, depth - 1)


def forms_passed(action: Callable[[], object]) -> dict[type, object]:
    """What modules of the package pass each other of a job: one value of each class that carries the mark."""
    forms: dict[type, object] = {}

    def note(frame: FrameType, event: str, result: object) -> None:
        caller, own = frame.f_back, frame.f_code.co_filename
        if event not in ("call", "return") or not own.startswith(SOURCES) or not caller:
            return
        if caller.f_code.co_filename == own or not caller.f_code.co_filename.startswith((SOURCES, "<")):
            return
        given = [result] if event == "return" else list(frame.f_locals.values())
        for value in chain(given, *(each for each in given if isinstance(each, list | tuple))):
            if is_form(value) and type(value) not in forms and has_mark(value):
                forms[type(value)] = value

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return forms


def test_forms_of_a_submitted_job_match_the_table(tmp_path: Path) -> None:
    settings = current_settings()
    backend = open_backend(settings)
    ensure_defaults(backend, settings)
    cluster = workspace_id(settings).child(Kind.CLUSTER, "empty")  # so that nothing starts
    scale = ScaleSettings(manual=ManualScale(target_node_count=0))
    user = UserAccountSettings(admin_user_name="me")
    backend.create(
        cluster, ClusterSpec(vm_size="STANDARD_D2", scale_settings=scale, user_account_settings=user)
    )

    def submit_cell() -> None:
        line, notebook = f"train --nodes 2 --cluster empty --args {MARK}", Notebook(folder=tmp_path)
        request = parse(line, "print(1)", settings=settings, notebook=notebook)
        submit(backend, request, settings)

    forms = forms_passed(submit_cell)
    listed = set(re.findall(r"^\| `(\w+)` \|", part("forms"), re.MULTILINE))
    inner = {kind.__name__ for value in forms.values() for kind in parts_of(value)}
    passed = {kind.__name__ for kind in forms}
    assert listed <= passed, f"not passed by any module: {listed - passed}"
    assert passed - inner <= listed, f"docs/architecture.md does not list {passed - inner - listed}"
