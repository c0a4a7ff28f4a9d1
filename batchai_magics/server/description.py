"""The published operations as OpenAPI describes them: what programs make clients and tests of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

DESCRIPTION = "openapi.json"  # the path that it is served at


@cache
def description() -> Mapping[str, Any]:
    """The OpenAPI document (3.1) of the 29 published operations; our own words are not in it."""
    import yaml

    text = (files(__package__) / "openapi.yaml").read_text(encoding="utf-8")
    document: Mapping[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document
