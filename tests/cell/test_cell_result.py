"""A script's `result`: whether it sets one, and what of it can come back."""

import json

import pytest

from batchai_magics.cell import Notebook, parse
from batchai_magics.cell.cell_script import CompiledScript, sets_result
from batchai_magics.cell.run_cell import MOST_BYTES, document
from batchai_magics.config import Settings
from batchai_magics.errors import UsageError
from batchai_magics.jobs.job_result import value_of

SETTINGS = Settings(subscription="s", resource_group="g")


def there_and_back(value):
    return value_of(json.loads(document(value))["result"])


def refusal_of(value):
    return json.loads(document(value))["refused"]


@pytest.mark.parametrize(
    "body",
    [
        "result = 1",
        "if True:\n    a, result = 1, 2",
        "result: int = 1",
        "for i in range(3):\n    result = i",
        "def train():\n    global result\n    result = 1\ntrain()",
        "print(result := 3)",
    ],
)
def test_a_script_that_assigns_its_global_result_sets_one(body):
    assert sets_result(CompiledScript.of(body))


@pytest.mark.parametrize(
    "body",
    [
        "def f():\n    result = 1",
        "results = 1",
        "class A:\n    result = 1",
        "print(result)",
        "x.result = 1",
        "for result in range(3): pass",
    ],
)
def test_script_without_a_global_assignment_sets_no_result(body):
    assert not sets_result(CompiledScript.of(body))


def test_a_cell_with_a_result_has_an_output_for_it_and_a_program_that_keeps_it():
    request = parse("r --nodes 2", "result = 1", settings=SETTINGS)
    assert {path.rpartition("/")[2] for path in request.uploads} == {"r.py", "run_cell.py"}
    (output,) = request.spec.output_directories
    assert (output.id, output.path_suffix) == ("RESULT", "result")
    assert request.spec.settings.command_line_args == "$AZ_BATCHAI_INPUT_SCRIPT/r.py"


def test_cell_without_a_result_is_started_directly():
    request = parse("r", "print(1)", settings=SETTINGS)
    assert not request.spec.output_directories
    assert request.spec.settings.python_script_file_path == "$AZ_BATCHAI_INPUT_SCRIPT/r.py"


def test_output_directory_named_result_is_kept():
    request = parse("r --output RESULT=mine", "result = 1", settings=SETTINGS)
    assert [output.path_suffix for output in request.spec.output_directories] == ["mine"]


def test_an_upload_must_not_take_the_programs_name(tmp_path):
    (tmp_path / "run_cell.py").write_text("")
    with pytest.raises(UsageError, match=r"run_cell\.py: the script needs a file of that name"):
        parse("r --upload run_cell.py", "result = 1", settings=SETTINGS, notebook=Notebook(folder=tmp_path))


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"loss": 0.5, "epochs": 3, "names": ["a", "ü"], "ok": True},
        (1, (2, [3])),
        {1: "a", (2, 3): "b"},
        {"$tuple": [1]},
        {1, 2},
        b"\x00\xff",
        10**30,
    ],
)
def test_plain_data_is_returned_unchanged(value):
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)


def test_non_finite_numbers_are_returned():
    assert there_and_back([float("inf")]) == [float("inf")]
    assert str(there_and_back(float("nan"))) == "nan"


def test_arrays_and_tables_come_back_with_their_types():
    np = pytest.importorskip("numpy")
    pd = pytest.importorskip("pandas")
    array = np.arange(6, dtype="float32").reshape(2, 3)
    back = there_and_back({"w": array, "n": np.int64(3)})
    assert back["n"] == 3
    assert back["w"].dtype == array.dtype
    assert (back["w"] == array).all()
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "t": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    pd.testing.assert_frame_equal(there_and_back(frame), frame, check_index_type=False, check_dtype=False)
    series = pd.Series([1.5, 2.5], index=["a", "b"])
    assert there_and_back(series).to_dict() == {"a": 1.5, "b": 2.5}


def test_objects_other_than_plain_data_are_refused_with_their_type():
    np = pytest.importorskip("numpy")
    assert refusal_of({"model": object()}) == "object is not plain data"
    assert refusal_of(np.array([object()])) == "numpy.ndarray of object is not plain data"
    endless = []
    endless.append(endless)
    assert "holds itself" in refusal_of(endless)


def test_oversized_data_is_refused_with_its_size_and_the_limit():
    assert refusal_of("x" * MOST_BYTES) == "it takes 16.0 MiB, and at most 16 MiB come back"


@pytest.mark.parametrize(
    "plain",
    [{"$code": "x"}, {"$array": {"type": "O", "shape": [1], "data": "AAAAAAAAAAA="}}, {"$tuple": [], "b": 1}],
)
def test_result_file_of_another_form_is_refused(plain):
    with pytest.raises(ValueError, match=r"there is no|an array of"):
        value_of(plain)
