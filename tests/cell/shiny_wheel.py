"""A package as a file, which needs no network to be installed."""

import importlib.util
import zipfile
from pathlib import Path

import pytest

needs_uv = pytest.mark.skipif(not importlib.util.find_spec("uv"), reason="uv is not installed")


def shiny_wheel(folder: Path) -> Path:
    """Writes the wheel of a package with one module, `shiny`."""
    return wheel(folder, "shiny", "COLOUR = 'gold'")


def wheel(folder: Path, name: str, source: str = "") -> Path:
    """Writes the wheel of a package with one module of its name."""
    file, info = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", source)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return file
