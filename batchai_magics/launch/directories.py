"""The input and output directories of a job: where they are, and which are made or have to be there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from batchai_magics.launch.plan import Directory, Need
from batchai_magics.models.job import JobSpec


def directories(spec: JobSpec, variables: Mapping[str, str], segment: str) -> Iterator[Directory]:
    """Every directory of the job on a node with these variables; `segment` is the job's own path on a share.

    The path of one may name the variables of those before it.
    """
    known = dict(variables)
    for directory in (*_inputs(spec), *_outputs(spec, segment)):
        path = expand(directory.path, known)
        known[directory.variable] = path
        yield directory._replace(path=path)


def _inputs(spec: JobSpec) -> Iterator[Directory]:
    needs = {None: Need.NOTHING, True: Need.MAKE, False: Need.FIND}
    for item in spec.input_directories or ():
        yield Directory(f"AZ_BATCHAI_INPUT_{item.id}", item.path, needs[item.create_new])


def _outputs(spec: JobSpec, segment: str) -> Iterator[Directory]:
    for item in spec.output_directories or ():
        path = item.path_below(item.path_prefix, segment)
        yield Directory(f"AZ_BATCHAI_OUTPUT_{item.id}", path, Need.MAKE if item.is_own else Need.FIND)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`$NAME` and `${NAME}` of the variables that are known; anything else stays as it is."""
    for name in sorted(variables, key=len, reverse=True):
        text = text.replace("${" + name + "}", variables[name]).replace("$" + name, variables[name])
    return text
