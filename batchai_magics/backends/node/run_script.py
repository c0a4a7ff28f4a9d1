"""Runs a Python script under MPI, as `python run_script.py SCRIPT ARGS…`: an uncaught error ends the rank.

Without it the rank waits in MPI's finalization for the others, which wait for it, and the job hangs.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from types import TracebackType
from typing import NoReturn


def main() -> None:
    """Runs the script as `__main__`; its traceback starts at its own first frame."""
    del sys.argv[0]
    script = sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(script))  # noqa: PTH100, PTH120 pathlib slows each rank's start
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        if error.code is not None and error.code != 0:
            _leave(error.code)
    except BaseException as error:  # noqa: BLE001 whatever it was: say it and go
        traceback.print_exception(type(error), error, _from_script(error.__traceback__, script))
        _leave(1)


def _from_script(frames: TracebackType | None, script: str) -> TracebackType | None:
    own = frames
    while own and own.tb_frame.f_code.co_filename != script:
        own = own.tb_next
    return own


def _leave(code: object) -> NoReturn:
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 255)


if __name__ == "__main__":
    main()
