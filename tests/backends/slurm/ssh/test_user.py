"""An ordinary user at the other end of ssh."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.local.namespace import scene, tell
from tests.backends.machines import real_sshd
from tests.backends.machines.real_sshd import RealSshd
from tests.backends.slurm import real_slurm
from tests.backends.slurm.real_slurm import RealSlurm
from tests.contract.place import PlaceOptions
from tests.contract.places import place_on

pytestmark = pytest.mark.slow
# `nobody`, who has a shell here.
LET_IN = 'f=$(mktemp); sed "s#^nobody:.*#nobody:x:65534:65534::/tmp:/bin/bash#" /etc/passwd > "$f"'
LET_IN += '; mount --bind "$f" /etc/passwd; exec unshare -U --map-user=65534 --map-group=65534 "$@"'
AS_NOBODY = ("unshare", "-Urm", "sh", "-c", LET_IN, "sh")


def a_job_of_an_ordinary_user(folder: Path) -> None:
    """A Slurm, an sshd and a job, all of a user without rights."""
    sshd = RealSshd()
    with real_slurm.running(RealSlurm, folder / "slurm", count=2) as slurm:
        sshd.make()
        try:
            with place_on(slurm, folder, PlaceOptions(), sshd=sshd) as place:
                job = place.run("id -u")
                tell(job.state.value, place.log(job.id).decode())
        finally:
            sshd.stop()


def test_an_ordinary_user_needs_no_rights(tmp_path: Path) -> None:
    if reason := real_slurm.skip_reason() or real_sshd.skip_reason():
        pytest.skip(reason)
    assert scene(a_job_of_an_ordinary_user, tmp_path, who=AS_NOBODY) == [["succeeded", "65534\n"]]
