"""What is written down of every resource, and the words for what is not there."""

from __future__ import annotations

import hashlib
import json
import sqlite3

from batchai_magics.backends.base import ExperimentSpec, Spec, WorkspaceSpec
from batchai_magics.errors import NotFoundError
from batchai_magics.models.ids import Kind, ResourceId


def not_found(db: sqlite3.Connection, id: ResourceId) -> NotFoundError:
    """The service's words for what is missing, with the names that are there."""
    if id.kind is not Kind.WORKSPACE and not is_there(db, id.parent):
        return not_found(db, id.parent)
    query = "SELECT id FROM resource WHERE parent = ? AND kind = ? ORDER BY seq DESC LIMIT 8"
    names = [ResourceId.parse(r[0]).name for r in db.execute(query, (parent_key(id), id.kind.value))]
    hint = f"There are: {', '.join(names)}." if names else ""
    return NotFoundError(
        f"The specified {id.kind.noun} {id.name} is not found", code=f"{id.kind.code}NotFound", hint=hint
    )


def is_there(db: sqlite3.Connection, id: ResourceId) -> bool:
    """Whether a resource of that id exists."""
    return db.execute("SELECT 1 FROM resource WHERE key = ?", (id.key,)).fetchone() is not None


def parent_key(id: ResourceId) -> str:
    """What the resource is listed under: its parent, or a workspace's resource group."""
    return id.key.rpartition("/workspaces/")[0] if id.kind is Kind.WORKSPACE else id.parent.key


def wire_text(spec: Spec) -> str:
    """The description as it is kept: wire JSON without secrets."""
    if isinstance(spec, WorkspaceSpec):
        return json.dumps({"location": spec.location})
    return "{}" if isinstance(spec, ExperimentSpec) else json.dumps(spec.to_wire())


def fingerprint(spec: Spec) -> str:
    """A digest to know a description again by, without its secrets: a digest of them could be guessed."""
    if isinstance(spec, WorkspaceSpec | ExperimentSpec):
        return ""
    data = json.dumps(spec.to_wire(), sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()
