"""What shares and containers have in common: they are made, listed, deleted."""

from __future__ import annotations

from batchai_magics.commands.azure.place import Place


def create(place: Place) -> dict[str, bool]:
    """Makes it unless it is there."""
    is_there = place.is_there
    place.storage.make(place.name)
    return {"created": not is_there}


def exists(place: Place) -> dict[str, bool]:
    """Whether it is there."""
    return {"exists": place.is_there}


def delete(place: Place) -> dict[str, bool]:
    """Deletes it with all in it."""
    place.storage.remove(place.name)
    return {"deleted": True}


def has(place: Place, path: str, *, is_directory: bool) -> dict[str, bool]:
    """Whether a file, or a folder, is in it."""
    found = place.find(path) if place.is_there else None
    return {"exists": found is not None and found.is_directory is is_directory}


def drop(place: Place, path: str) -> dict[str, bool]:
    """Deletes a file or folder of it."""
    place.storage.delete(place.name, path)
    return {"deleted": True}
