"""Lines of the genuine `az batchai` of 2019, one after the other in one process; tells what each gave.

Nothing of `az` is changed: what stands before its import are names that Python has dropped since.
"""

import argparse
import collections
import collections.abc
import contextlib
import inspect
import io
import json
import logging
import sys
import time

time.clock = time.time
for name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable", "Hashable"):
    setattr(collections, name, getattr(collections.abc, name))
ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")
inspect.getargspec = lambda function: ArgSpec(*inspect.getfullargspec(function)[:4])
add_parser = argparse._SubParsersAction.add_parser


def replaced(self, name, **settings):
    self._name_parser_map.pop(name, None)  # today's argparse refuses what `az` relied on
    return add_parser(self, name, **settings)


argparse._SubParsersAction.add_parser = replaced

from azure.cli.core import get_default_cli  # noqa: E402  after what it needs


def run(line):
    """What one line writes and its exit code."""
    out, error = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(error)  # its own keeps the stream of the first line
    logging.getLogger("cli").addHandler(handler)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = get_default_cli().invoke(line, out_file=out)
        except SystemExit as ended:
            code = ended.code
    logging.getLogger("cli").removeHandler(handler)
    return {"line": line, "code": code or 0, "out": out.getvalue(), "error": error.getvalue()}


told = [run(line) for line in json.load(sys.stdin)]
sys.__stdout__.write(json.dumps(told) + "\n")
sys.__stdout__.flush()
