"""Runs a Python script under MPI, as `python run_script.py SCRIPT ARGS…`: an uncaught error ends the rank.

Without it the rank would wait in MPI's finalization for the others, which wait for it, and the job would
hang.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in `typing`, whose import would cost each rank time
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Runs the script as `__main__`; tracebacks start at its own first frame."""
    del sys.argv[0]
    script = sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(script))  # noqa: PTH100, PTH120 pathlib slows each rank's start
    try:
        _run(script)
    except SystemExit as error:
        if error.code is not None and error.code != 0:
            _exit_rank(error.code)
    except BaseException as error:  # noqa: BLE001 any error is printed and ends the rank
        import traceback

        traceback_start = error.__traceback__
        while traceback_start and traceback_start.tb_frame.f_code.co_filename != script:
            traceback_start = traceback_start.tb_next
        traceback.print_exception(type(error), error, traceback_start)
        _exit_rank(1)


def _run(script: str) -> None:
    source = b"\0"
    if not os.path.isdir(script):  # noqa: PTH112 as above
        with open(script, "rb") as file:  # noqa: PTH123 as above
            source = file.read()
    if b"\0" in source:  # a folder, an archive, or compiled
        import runpy

        runpy.run_path(script, run_name="__main__")
        return
    code = compile(source, script, "exec", dont_inherit=True)
    main = type(sys)("__main__")
    main.__file__, main.__cached__, main.__builtins__ = script, None, __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _exit_rank(code: object) -> NoReturn:
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 255)


if __name__ == "__main__":
    main()
