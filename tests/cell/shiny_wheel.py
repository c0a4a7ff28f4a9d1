"""A package as a file, which needs no network to be installed."""

import importlib.util
import zipfile
from pathlib import Path

import pytest

needs_uv = pytest.mark.skipif(not importlib.util.find_spec("uv"), reason="uv is not installed")
_INFO = "shiny-1.0.dist-info"


def shiny_wheel(folder: Path) -> Path:
    """Writes the wheel of a package with one module, `shiny`."""
    file = folder / "shiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("shiny.py", "COLOUR = 'gold'")
        archive.writestr(f"{_INFO}/METADATA", "Metadata-Version: 2.1\nName: shiny\nVersion: 1.0\n")
        archive.writestr(f"{_INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{_INFO}/RECORD", "")
    return file
