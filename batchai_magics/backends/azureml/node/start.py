"""Unpacks the programs of a job on its node, once, and starts the process of a rank.

The service starts it for every process: `python batchai/start.py in:ID=PATH out:ID=PATH`. It runs with any
Python 3, to report which version the programs need.
"""

import os
import sys
import zipfile

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 any Python 3
_NEEDED = (3, 10)


def main() -> None:
    """Starts the process."""
    if sys.version_info < _NEEDED:
        version = "{}.{}".format(*sys.version_info)
        needed = "{}.{}".format(*_NEEDED)
        sys.exit("batchai: the image has Python {}; jobs need {} or later".format(version, needed))  # noqa: UP032 as above
    programs = os.path.join(_HERE, "programs")  # noqa: PTH118
    _unpack(programs)
    sys.path.insert(0, programs)
    from batchai_magics.backends.azureml.node.run_process import run

    sys.exit(run(os.getcwd(), sys.argv[1:]))  # noqa: PTH109


def _unpack(programs: str) -> None:
    """Unpacks the programs, unless another process of this node has."""
    if os.path.isdir(programs):  # noqa: PTH112
        return
    part = "{}.{}".format(programs, os.getpid())  # noqa: UP032
    with zipfile.ZipFile(programs + ".zip") as archive:
        archive.extractall(part)
    try:
        os.rename(part, programs)  # noqa: PTH104
    except OSError:  # another process was faster
        return


if __name__ == "__main__":
    main()
