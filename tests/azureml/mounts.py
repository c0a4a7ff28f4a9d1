"""The folders of a job: its code, its inputs and outputs, and what is uploaded from them while it runs."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from tests.azureml.blobs import Blobs
from tests.azureml.jobs import Job, artifact, output_uri
from tests.azureml.workspace import ARTIFACTS, Workspace

_DATASTORE = re.compile(r"azureml://(?:.*/)?datastores/([^/]+)(?:/paths)?/(.*)")


class SyncedFolder:
    """A folder whose files are those of a container with a prefix; what changes in it is uploaded."""

    def __init__(self, storage: Blobs, folder: Path, container: str, prefix: str) -> None:
        self.folder = folder
        self._storage, self._container = storage, container
        self._prefix = f"{prefix.rstrip('/')}/" if prefix else ""
        self._known: dict[str, tuple[int, int]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def download(self) -> None:
        """Fetches all files."""
        for name in self._storage.names(self._container, self._prefix):
            file = self.folder / name[len(self._prefix) :]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self._storage.read(self._container, name))
            self._known[name[len(self._prefix) :]] = _version(file)

    def upload(self) -> None:
        """Stores the files that have changed since, and removes those that are gone."""
        found = {}
        for file in sorted(self.folder.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # the job may rename or remove it meanwhile
                if file.is_file():
                    name = str(file.relative_to(self.folder))
                    version = _version(file)
                    if self._known.get(name) != version:
                        self._storage.write(self._container, self._prefix + name, file.read_bytes())
                    found[name] = version
        for name in self._known.keys() - found.keys():
            self._storage.remove(self._container, self._prefix + name)
        self._known = found


def _version(file: Path) -> tuple[int, int]:
    known = file.stat()
    return known.st_mtime_ns, known.st_size


class JobFolders:
    """The folders of one attempt of a job below `root`."""

    def __init__(self, root: Path, job: Job, workspace: Workspace) -> None:
        self.root, self._job, self._workspace = root, job, workspace
        self._outputs: list[SyncedFolder] = []
        self.paths: dict[str, str] = {}  # what stands for ${{outputs.x}}
        self.env: dict[str, str] = {}

    def work(self, node: int) -> Path:
        """The working directory of the processes of a node."""
        return self.root / f"node{node}" / "exe" / "wd"

    def prepare(self) -> None:
        """Unpacks the code on every node."""
        for node in range(self._job.node_count):
            self._unpack(self.work(node))
            for name in ("logs", "outputs"):
                own = SyncedFolder(
                    self._workspace.storage, self.work(node) / name, *artifact(self._job, name)
                )
                self._outputs.append(own)
        properties = self._job.properties
        for name in properties.get("outputs") or {}:
            path = self._output(name)
            self.paths[f"${{{{outputs.{name}}}}}"] = self.env[f"AZURE_ML_OUTPUT_{name}"] = path

    def upload(self) -> None:
        """Stores what has changed in the outputs."""
        for folder in self._outputs:
            folder.upload()

    def _unpack(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        if code := self._job.properties.get("codeId"):
            SyncedFolder(self._workspace.storage, folder, *self._workspace.code_folder(code)).download()

    def _output(self, name: str) -> str:
        container, prefix = self._place_of(output_uri(self._job, name))
        folder = SyncedFolder(self._workspace.storage, self.root / "outputs" / name, container, prefix)
        folder.download()
        self._outputs.append(folder)
        return str(folder.folder)

    def _place_of(self, uri: str) -> tuple[str, str]:
        """The container and prefix of an address of data."""
        found = _DATASTORE.fullmatch(uri)
        assert found, f"no address of data: {uri}"
        return self._workspace.container_of(found[1]), found[2]


class LogUploader:
    """Appends what the processes of an attempt print to append blobs."""

    def __init__(self, storage: Blobs, job: Job, folder: Path) -> None:
        self._storage, self.folder = storage, folder
        self._prefix, self._sent = f"{job.prefix}user_logs/", dict[str, int]()
        folder.mkdir(parents=True, exist_ok=True)

    def upload(self) -> None:
        """Sends what is new."""
        for file in sorted(self.folder.iterdir()):
            with file.open("rb") as stream:
                stream.seek(self._sent.get(file.name, 0))
                data = stream.read()
            if data or file.name not in self._sent:
                self._storage.append(ARTIFACTS, self._prefix + file.name, data)
                self._sent[file.name] = self._sent.get(file.name, 0) + len(data)
