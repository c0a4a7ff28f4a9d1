"""The service over a home of files, for the engines whose nodes share that folder."""

from __future__ import annotations

from batchai_magics.backends.service.context import HomeContext
from batchai_magics.backends.service.file_repository import FileRepository
from batchai_magics.backends.service.home_accounts import FileRows, home_storage
from batchai_magics.backends.service.home_directory import HomeDirectory
from batchai_magics.backends.service.home_subscription import HomeGroups
from batchai_magics.backends.service.runner import Runner
from batchai_magics.backends.service.service import Service
from batchai_magics.launch.job_bounds import JobBounds


class FolderService(Service):
    """Jobs of an engine, with state, shares and logs below the home of a repository of files."""

    def __init__(
        self,
        repository: FileRepository,
        runner: Runner,
        *,
        setting: str,
        core_quota: int,
        bounds: JobBounds | None = None,
    ) -> None:
        """`setting` is the setting that selects the home, for error messages."""
        layout = repository.layout
        rows, groups = FileRows(layout.home / "accounts"), HomeGroups(FileRows(layout.home / "groups"))
        context = HomeContext(
            repository,
            runner,
            open_folders=lambda: HomeDirectory(layout, setting=setting),
            open_storage=lambda context: home_storage(layout, context, groups, rows),
            core_quota=core_quota,
            bounds=bounds or JobBounds(),
        )
        super().__init__(context)
