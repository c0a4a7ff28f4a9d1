"""Runs a module as `python -m` does, as `run_module.py MODULE ARGS…`.

A standalone program that uses only the standard library; it is uploaded beside the project of the module.
"""

import os
import runpy
import sys


def main() -> None:
    """Runs the module as `__main__`, with the working directory as the first place to import from."""
    del sys.argv[0]
    sys.path[0] = os.getcwd()  # noqa: PTH109 as a text, like Python's own
    sys.modules["__main__"] = type(sys)("__main__")
    runpy._run_module_as_main(sys.argv[0])  # type: ignore[attr-defined]  # what `python -m` calls


if __name__ == "__main__":
    main()
