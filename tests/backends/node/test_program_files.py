"""The list of the files that nodes have."""

from batchai_magics.backends.node.program_files import PACKAGE, program_files


def test_every_file_of_the_list_exists():
    missing = [name for name in program_files("backends/slurm/node") if not (PACKAGE / name).is_file()]
    assert missing == []
