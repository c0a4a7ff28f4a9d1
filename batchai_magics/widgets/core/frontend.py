"""The front end as the build made it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from batchai_magics.errors import BatchAIError

STATIC = Path(__file__).parents[1] / "static"


@cache
def script(name: str = "job_view") -> str:
    """A view's ES module; raises BatchAIError when it has not been built."""
    return _read(f"{name}.js")


@cache
def style(name: str = "job_view") -> str:
    """A view's style sheet; raises BatchAIError when it has not been built."""
    return _read(f"{name}.css")


def _read(name: str) -> str:
    try:
        return (STATIC / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BatchAIError(
            f"the live view has not been built: {STATIC / name} is missing",
            hint="run `pip install -e .` (or `npm ci && npm run build`) in the source folder, "
            "or set BATCHAI_UI=html to do without",
        ) from None
