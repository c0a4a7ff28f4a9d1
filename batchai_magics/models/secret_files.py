"""Files that hold secrets, by their names: they stay behind unless a user names the file itself."""

from __future__ import annotations

from fnmatch import fnmatchcase

_NAMES = (  # of a file, or of a folder that it is in
    *(".env*", ".netrc", ".pypirc", ".npmrc", ".git-credentials", "kaggle.json", "credentials*"),
    *("id_*", "*.pem", "*.key", "*.p12"),
    *(".aws", ".ssh", ".kube"),
)
_HARMLESS = (".env.example",)
_FOLDER = ".config/gcloud/"


def is_secret_file(path: str) -> bool:
    """Whether a path with `/` names a file that holds secrets, or lies in a folder of such files."""
    lowered = path.lower()
    return f"/{_FOLDER}" in f"/{lowered}/" or any(map(_is_secret_part, lowered.split("/")))


def _is_secret_part(name: str) -> bool:
    return name not in _HARMLESS and any(fnmatchcase(name, pattern) for pattern in _NAMES)
