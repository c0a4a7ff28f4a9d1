"""Where the server keeps what it keeps: below the backend's home, for nobody else to read."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from batchai_magics.backends.service.private_files import make_folder, write
from batchai_magics.config import APP, Settings
from batchai_magics.errors import UsageError


@dataclass(frozen=True)
class Home:
    """The one owner of the server's file names."""

    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> Home:
        """The folder `server` in the home of a backend, or where programs keep their data."""
        homes = (getattr(section, "home", None) for section in settings.sections.values())
        home = next((home for home in homes if home), None)
        if home is None:
            import platformdirs

            home = platformdirs.user_data_dir(APP, appauthor=False)
        return cls(Path(home).expanduser().absolute() / "server")

    @property
    def token(self) -> Path:
        """The administrator's token."""
        return self.folder / "token"

    @property
    def keys(self) -> Path:
        """The keys of the storage account that is always there."""
        return self.folder / "keys.json"

    @property
    def operations(self) -> Path:
        """Long-running operations."""
        return self.folder / "operations"

    @property
    def owners(self) -> Path:
        """What belongs to whom."""
        return self.folder / "owners.jsonl"

    @property
    def users(self) -> Path:
        """Who may come in beside the administrator."""
        return self.folder / "users.json"

    @property
    def uploads(self) -> Path:
        """Notes of files that are not whole yet."""
        return self.folder / "uploads"

    @property
    def metadata(self) -> Path:
        """Metadata of shares, folders and files."""
        return self.folder / "metadata.jsonl"

    @property
    def access_log(self) -> Path:
        """Who did what, and when."""
        return self.folder / "access.log"

    @property
    def certificates(self) -> Path:
        """The authority of `--tls self`, and what it has signed."""
        return self.folder / "tls"

    @property
    def authority(self) -> Path:
        """The certificate that clients have to trust."""
        return self.certificates / "ca.pem"

    def make(self) -> None:
        """Makes the folder, for its owner alone."""
        make_folder(self.folder)


def read_token(file: Path) -> str:
    """The token in a file; the first run makes one. UsageError for a file that others can read."""
    if not file.exists():
        write(file, secrets.token_urlsafe(32) + "\n")
    if file.stat().st_mode & 0o077:
        hint = f"chmod 600 {file}"
        raise UsageError(f"the token in {file} can be read by others", hint=hint)
    token = file.read_text(encoding="utf-8").strip()
    if len(token) < 16:
        raise UsageError(f"the token in {file} is too short", hint="Delete the file: a new one is made.")
    return token
