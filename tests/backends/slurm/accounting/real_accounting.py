"""A real Slurm with accounting: slurmdbd on loopback, and a MariaDB behind a socket, both of a test's own."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.backends.slurm.real_slurm import RealSlurm, own_name, wait_for
from tests.ports import free_port
from tests.world import until

PROGRAMS = ("mariadbd", "slurmdbd", "sacct", "sacctmgr")
_TABLES = [Path("/usr/share/mysql") / f"mysql_system_tables{part}.sql" for part in ("", "_data")]
_SMALL = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M", "--innodb-flush-log-at-trx-commit=0"]
_DBD = """
AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
CommunicationParameters=NoInAddrAny
"""
_OF_CONTROLLER = """
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoreFlags=job_comment
"""


def skip_reason() -> str:
    """Why there can be no accounting here; empty where there can."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    missing += [str(file) for file in _TABLES if not file.exists()]
    return f"no {', '.join(missing)} here: install Debian's slurmdbd, mariadb-server-core" if missing else ""


@dataclass
class AccountedSlurm(RealSlurm):
    """A Slurm whose controller tells a slurmdbd of all jobs."""

    accounting: str = "slurmdbd"
    _stores: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """The same; slurmdbd finds its database by it."""
        return {**super().env, "MYSQL_UNIX_PORT": str(self.spool / "db"), "SLURM_CONF": str(self.conf)}

    def prepare(self) -> None:
        """Starts its accounting, which has to answer before the controller comes."""
        port = free_port()
        self.more += _OF_CONTROLLER.format(port=port)
        super().prepare()
        self._start_database()
        conf = self.folder / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(_DBD.format(port=port, user=own_name(), folder=self.folder))
        self._keep("slurmdbd", ["slurmdbd", "-D"])
        until(lambda: "error" not in self.ask("sacctmgr", "-n", "list", "cluster"))

    def stop(self) -> None:
        """Ends all of it, accounting last."""
        super().stop()
        for store in reversed(self._stores):
            store.terminate()
            wait_for(store)

    def _start_database(self) -> None:
        data = self.folder / "data"
        data.mkdir()
        words = ["mariadbd", "--no-defaults", f"--datadir={data}", f"--user={own_name()}", *_SMALL]
        tables = "create database mysql;\nuse mysql;\n" + "".join(file.read_text() for file in _TABLES)
        made = [*words, "--bootstrap", "--skip-grant-tables"]
        subprocess.run(made, input=tables, text=True, capture_output=True, check=True)
        socket = self.spool / "db"
        alone = ["--skip-grant-tables", "--skip-networking", f"--socket={socket}"]
        self._keep("mariadbd", [*words, *alone, f"--pid-file={self.folder}/mariadbd.pid"])
        until(socket.exists)

    def _keep(self, name: str, words: list[str]) -> None:
        self._start(name, words)
        self._stores.append(self.daemons.pop(name))
