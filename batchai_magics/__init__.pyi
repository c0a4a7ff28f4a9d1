import IPython.core.interactiveshell

from .backends.node.job_module import log as log, save as save, stopping as stopping
from .cell.cell_request import CellRequest as CellRequest
from .config import Settings as Settings
from .errors import (
    BatchAIError as BatchAIError,
    CapabilityError as CapabilityError,
    ConflictError as ConflictError,
    JobFailedError as JobFailedError,
    NotFoundError as NotFoundError,
    ServiceError as ServiceError,
    SpecError as SpecError,
    StorageError as StorageError,
    UsageError as UsageError,
)
from .jobs.job_handle import Job as Job
from .jobs.python_run import find_job as find_job
from .jobs.python_run import run as run
from .jobs.submit import submit as submit
from .metrics.runs.comparison import compare as compare
from .metrics.runs.log_metrics import read_metrics as read_metrics
from .metrics.runs.scaling import scaling as scaling
from .models.cluster_spec import ClusterSpec as ClusterSpec
from .models.job_spec import JobSpec as JobSpec

__version__: str

def load_ipython_extension(ipython: IPython.core.interactiveshell.InteractiveShell) -> None: ...
def unload_ipython_extension(ipython: IPython.core.interactiveshell.InteractiveShell) -> None: ...
