"""Runs a cell's script with the notebook's variables and saves its `result`: run_cell.py SCRIPT ARGS.

A standalone program that uses only the standard library; it is uploaded beside the script and started in its
place. It writes JSON, where tuples, arrays and the like are objects with one key that starts with `$`.
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import pickle
import sys
import traceback
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLES = "variables.pkl"  # pickled variables, beside this program
FOLDER, FILE = "RESULT", "result.json"  # id of the output directory, and the file in it
VERSION = 1
MOST_BYTES = 16 << 20
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK", "AZ_BATCHAI_TASK_INDEX", "SLURM_PROCID")
_ARRAYS = "biufcmM"  # numpy kinds that are plain bytes


def main() -> None:
    """Runs the script as `__main__` and exits as it does."""
    del sys.argv[0]
    script = sys.argv[0]
    sys.path[0] = str(Path(script).parent)
    module = types.ModuleType("__main__")
    file = Path(__file__).with_name(VARIABLES)
    values: dict[str, Any] = pickle.loads(file.read_bytes()) if file.exists() else {}
    module.__dict__.update(values, __file__=script)
    sys.modules["__main__"] = module
    try:
        exec(compile(Path(script).read_bytes(), script, "exec", dont_inherit=True), module.__dict__)
    except SystemExit as end:
        if not end.code:
            _write_result(module.__dict__)
        raise
    except Exception as error:  # noqa: BLE001 reported as if Python had run the script
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        sys.exit(1)
    _write_result(module.__dict__)


def _write_result(names: Mapping[str, Any]) -> None:
    """Writes the script's `result` atomically."""
    folder = os.environ.get(f"AZ_BATCHAI_OUTPUT_{FOLDER}")
    if "result" not in names or not folder or not _is_first_rank():
        return
    try:
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        part = target / f"{FILE}.part"
        part.write_text(document(names["result"]), encoding="utf-8")
        part.replace(target / FILE)
    except OSError as error:
        print(f"batchai: `result` could not be written: {error}", file=sys.stderr)


def _is_first_rank() -> bool:
    """Whether this is rank 0 of the job, with parameter servers its first worker."""
    rank = next((os.environ[name] for name in _RANKS if os.environ.get(name)), "0")
    try:
        role = json.loads(os.environ.get("TF_CONFIG") or "{}")["task"]["type"]
    except (ValueError, KeyError, TypeError):  # not TensorFlow's
        role = ""
    return rank == "0" and role != "ps"


def document(value: object) -> str:
    """The content of the result file: the value, or the reason why it cannot be saved."""
    try:
        text = json.dumps({"version": VERSION, "result": to_plain(value)})
        if len(text) <= MOST_BYTES:
            return text
        reason = f"it takes {len(text) / (1 << 20):.1f} MiB, and at most {MOST_BYTES >> 20} MiB come back"
    except RecursionError:
        reason = "it is nested too deeply, or holds itself"
    except Exception as error:  # noqa: BLE001 objects' own methods may raise anything
        reason = str(error) or traceback.format_exception_only(type(error), error)[-1].strip()
    return json.dumps({"version": VERSION, "refused": reason})


def to_plain(value: Any) -> Any:
    """Converts a value to JSON types; raises TypeError for what is not plain data."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: to_plain(item) for key, item in value.items()}
        return {"$dict": [[to_plain(key), to_plain(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [to_plain(item) for item in value]
        return items if isinstance(value, list) else {"$tuple" if isinstance(value, tuple) else "$set": items}
    if isinstance(value, (bytes, bytearray)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, (datetime.datetime, datetime.date)):
        return {"$time": value.isoformat()}
    return _plain_table(value)


def _plain_table(value: Any) -> Any:
    """Converts tables, series, arrays and tensors without importing their libraries."""
    kind = type(value)
    name = kind.__name__ if kind.__module__.partition(".")[0] == "pandas" else ""
    if name == "DataFrame":
        columns = [_plain_column(value.iloc[:, column]) for column in range(value.shape[1])]
        index = _plain_column(value.index)
        return {"$frame": {"columns": to_plain(value.columns.tolist()), "index": index, "data": columns}}
    if name == "Series":
        return {"$series": {"index": _plain_column(value.index), "data": _plain_column(value)}}
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a tensor, maybe on a GPU
        value = value.detach().cpu()
    if hasattr(value, "__array__"):
        return _plain_array(value.__array__(), kind)
    raise TypeError(f"{_name(kind)} is not plain data")


def _plain_column(values: Any) -> Any:
    array = values.to_numpy()
    return _plain_array(array, type(values)) if array.dtype.kind in _ARRAYS else to_plain(values.tolist())


def _plain_array(array: Any, kind: type) -> Any:
    if array.dtype.kind == "U":
        return to_plain(array.tolist())
    if array.dtype.kind not in _ARRAYS:
        raise TypeError(f"{_name(kind)} of {array.dtype} is not plain data")
    if not array.shape and array.dtype.kind in "biuf":
        return array.item()
    data = base64.b64encode(array.tobytes()).decode()
    return {"$array": {"type": array.dtype.str, "shape": list(array.shape), "data": data}}


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.").removeprefix("__main__.")


if __name__ == "__main__":
    main()
