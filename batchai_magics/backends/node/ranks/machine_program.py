"""The program that records the hardware and the packages of a machine, beside the running ranks.

Started as `python machine_program.py FILE [image]` by the interpreter of the job: it imports nothing but the
standard library, yields to everything else, and writes `FILE` atomically. With `image`, the ranks run in a
container, whose Python it does not know.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

VERSION = 1
_ENDINGS = (".dist-info", ".egg-info")


def main() -> None:
    """Records this machine; does nothing if the run's record is gone."""
    os.nice(19)
    os.closerange(3, 256)  # inherited: nobody is to wait for this program
    file = Path(sys.argv[1])
    is_image = sys.argv[2:] == ["image"]
    software = (
        {"problem": "Python and packages are those of the image"}
        if is_image
        else {
            "python": platform.python_version(),
            "executable": sys.executable,
            "packages": dict(sorted(packages())),
        }
    )
    text = json.dumps({"version": VERSION, **_hardware(), **software})
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with open(part, "x", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(text)
        part.replace(file)
    except OSError:  # the job was deleted, or the disk is full: no job fails for lack of a record
        part.unlink(missing_ok=True)


def _hardware() -> dict[str, object]:
    memory = _read("/proc/meminfo").partition("MemTotal:")[2].split(maxsplit=1)
    return {
        "name": platform.node(),
        "system": f"{_distribution()} {platform.system()} {platform.release()}".strip(),
        "processor": next(_fields("/proc/cpuinfo", "model name"), platform.machine()),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "memory_bytes": int(memory[0]) * 1024 if memory else 0,
        "gpus": [
            model
            for gpu in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
            for model in _fields(str(gpu), "Model")
        ],
    }


def packages() -> Iterator[tuple[str, str]]:
    """Names and versions of the installed packages, from the names of their folders: reads no file."""
    for folder in reversed(sys.path[1:]):  # what comes first in the path wins
        try:
            names = os.listdir(folder)  # noqa: PTH208  pathlib is slow
        except OSError:
            continue
        for stem, ending in map(os.path.splitext, names):
            name, _, rest = stem.partition("-")
            if ending in _ENDINGS and rest:
                yield name.replace("_", "-").lower(), rest.partition("-py")[0]


def _distribution() -> str:
    return next((text.strip('"') for text in _fields("/etc/os-release", "PRETTY_NAME", "=")), "")


def _fields(path: str, name: str, separator: str = ":") -> Iterator[str]:
    """The values of the lines `name: value` of a file."""
    for line in _read(path).splitlines():
        key, sign, value = line.partition(separator)
        if sign and key.strip() == name:
            yield value.strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    main()
