"""Runs a module as `python -m` does, as `run_module.py MODULE ARGS…`.

A standalone program that uses only the standard library; it is uploaded beside the project of the module.
"""

import os
import runpy
import sys

_NOT_ITS_OWN = (__file__, "<frozen runpy>", runpy.__file__)


def main() -> None:
    """Runs the module as `__main__`, with the working directory as the first place to import from.

    Tracebacks start at its own first frame.
    """
    del sys.argv[0]
    sys.path[0] = os.getcwd()  # noqa: PTH109 as a text, like Python's own
    sys.modules["__main__"] = type(sys)("__main__")
    try:
        runpy._run_module_as_main(sys.argv[0])  # type: ignore[attr-defined]  # what `python -m` calls
    except Exception as error:  # noqa: BLE001 reported as if Python had run the module
        frames = error.__traceback__
        while frames and frames.tb_frame.f_code.co_filename in _NOT_ITS_OWN:
            frames = frames.tb_next
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        sys.exit(1)


if __name__ == "__main__":
    main()
