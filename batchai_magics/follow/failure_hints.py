"""What may help after a failure: a sentence for each known mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from batchai_magics.cell.remedies import missing_in
from batchai_magics.models.resources import JobResource
from batchai_magics.records.job_error import JobError

_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_TOO_FEW_GPUS = re.compile(r"Duplicate GPU detected|CUDA error: invalid device ordinal")
_PACKAGES = {  # of modules that are named otherwise
    "Bio": "biopython",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "git": "GitPython",
    "hydra": "hydra-core",
    "ignite": "pytorch-ignite",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
    "yaml": "pyyaml",
}


def hints_of(job: JobResource, error: JobError, remedies: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """What may help after this failure.

    Args:
        job: The job.
        error: Its failure.
        remedies: What the submission recorded for names and modules that the script may lack.
    """
    own = (remedies or {}).get(missing_in(error.exception))
    if own:  # a module of the user is not to be installed
        return (own,)
    return tuple(filter(None, (hint(job, error) for hint in _HINTS)))


def _missing_module(job: JobResource, error: JobError) -> str:
    """Which Python lacks a module, and how the job gets it."""
    found = _MISSING_MODULE.match(error.exception)
    if found is None:
        return ""
    python = getattr(job.spec.settings, "python_interpreter_path", None)
    where = python or "the Python of the nodes (`python` on their PATH)"
    module = found["name"].partition(".")[0]
    package = _PACKAGES.get(module, module)
    return f"{where} has no module {found['name']}: add --with {package}, or install it with --prep"


def _too_few_gpus(job: JobResource, error: JobError) -> str:
    """That there are more processes than GPUs."""
    if not _TOO_FEW_GPUS.search(error.exception):
        return ""
    return "start one process per GPU (--processes N); gloo lets processes share a GPU, NCCL does not"


_HINTS: tuple[Callable[[JobResource, JobError], str], ...] = (_missing_module, _too_few_gpus)
