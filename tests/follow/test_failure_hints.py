"""What is advised after known mistakes."""

import pytest

from batchai_magics.cell.notebook_variables import variables_of_submitter
from batchai_magics.follow.job_errors import hints_of
from batchai_magics.models.states import ExecutionState
from batchai_magics.records.job_error import JobError
from tests.widgets.scripted_job import FAILURE, resource

JOB = resource(ExecutionState.FAILED, **FAILURE)


def test_a_missing_module_names_the_python_and_what_to_do():
    text = "ModuleNotFoundError: No module named 'einops.layers'"
    (hint,) = hints_of(JOB, JobError("resnet", text, exception=text))
    assert "the Python of the nodes" in hint
    assert hint.endswith("has no module einops.layers: add --with einops, or install it with --prep")


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("sklearn.svm", "scikit-learn"),
        ("cv2", "opencv-python-headless"),
        ("PIL", "pillow"),
        ("yaml", "pyyaml"),
    ],
)
def test_a_package_of_another_name_than_its_module_is_named(module: str, package: str):
    text = f"ModuleNotFoundError: No module named '{module}'"
    (hint,) = hints_of(JOB, JobError("resnet", text, exception=text))
    assert hint.endswith(f"has no module {module}: add --with {package}, or install it with --prep")


def test_a_module_of_the_user_is_never_advised_to_be_installed():
    text = "ModuleNotFoundError: No module named 'helper.inner'"
    error = JobError("resnet", text, exception=text)
    assert hints_of(JOB, error, {"module helper": "add --upload helper.py"}) == ("add --upload helper.py",)


def test_a_file_in_a_folder_that_was_not_sent_is_advised_to_be():
    text = "FileNotFoundError: [Errno 2] No such file or directory: 'data/train/x.csv'"
    error = JobError("resnet", text, exception=text)
    assert hints_of(JOB, error, {"file data": "add --upload data"}) == ("add --upload data",)
    assert hints_of(JOB, error, {"file dat": "add --upload dat"}) == ()


def test_a_relative_import_of_a_script_that_is_no_module_is_told_how_to_start_it():
    text = "ImportError: attempted relative import with no known parent package"
    (hint,) = hints_of(JOB, JobError("train", text, place="src/pkg/train.py:1", exception=text))
    assert hint.endswith("batchai run -m src.pkg.train")
    assert hints_of(JOB, JobError("train", text, place="cell line 2", exception=text)) == ()


def test_a_variable_that_only_the_submitter_has_is_advised_to_be_passed():
    remedies = variables_of_submitter(
        ["os.environ['DATA_DIR'], os.getenv(\"MY_TOKEN\"), {'labels': 1}['HOME']"],
        {"DATA_DIR": "/data", "MY_TOKEN": "x", "HOME": "/h", "OTHER": "o"},
        job_variables=["HOME"],
    )
    text = "KeyError: 'DATA_DIR'"
    (hint,) = hints_of(JOB, JobError("resnet", text, exception=text), remedies)
    assert hint == "DATA_DIR is set here and not in the job: add --env DATA_DIR"
    assert remedies["variable MY_TOKEN"].endswith("add --secret MY_TOKEN")
    assert remedies.keys() == {"variable DATA_DIR", "variable MY_TOKEN"}


@pytest.mark.parametrize(
    "text",
    [
        "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, invalid usage: "
        "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60",
        "torch.AcceleratorError: CUDA error: invalid device ordinal",
    ],
)
def test_more_processes_than_gpus_are_advised_to_be_fewer(text: str):
    (hint,) = hints_of(JOB, JobError("resnet", text, exception=text))
    assert "--processes" in hint


def test_a_script_that_reads_stdin_is_told_that_a_job_has_none():
    text = "EOFError: EOF when reading a line"
    (hint,) = hints_of(JOB, JobError("resnet", text, exception=text))
    assert hint == "a job has no stdin: pass what it reads as an argument, a variable or a file"
    text = "EOFError: Ran out of input"  # of pickle
    assert hints_of(JOB, JobError("resnet", text, exception=text)) == ()


def test_other_failures_have_no_hint():
    assert hints_of(JOB, JobError("resnet", "ValueError: 3", exception="ValueError: 3")) == ()
