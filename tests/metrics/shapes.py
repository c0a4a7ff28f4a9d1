"""Lines as launchers and log collectors pass them on, for tests."""

from hypothesis import strategies as st

SHAPES = {
    "plain": "{line}",
    "Open MPI tag": "[1,{rank}]<stdout>:{line}",
    "Open MPI stderr": "[1,{rank}]<stderr>:{line}",
    "Open MPI time": "Sat Nov 21 00:19:{second:02} 2026<stdout>:{line}",
    "Open MPI tag, time": "Sat Nov 21 00:19:{second:02} 2026[1,{rank}]<stdout>:{line}",
    "Open MPI 5 tag": "[1,{rank}]<stdout>: {line}",
    "Open MPI 5 detailed": "[1,{rank}][node-{rank}:4711]<stdout>: {line}",
    "Open MPI 5 tag, time": "[Sat Nov 21 00:22:{second:02} 2026][1,{rank}]<stdout>: {line}",
    "prterun": "[prterun-node-100629@1,{rank}]<stdout>: {line}",
    "tags at both ends": "[1,{rank}]<stdout>:{line}[1,{rank}]<stdout>:",
    "Gloo": "[{rank}]<stdout>:{line}",
    "SageMaker": "[1,mpirank:{rank},algo-1]<stdout>:{line}",
    "MPICH": "[{rank}] {line}",
    "srun": "{rank}: {line}",
    "torchrun": "[default{rank}]:{line}",
    "kubectl": "2019-03-02T10:25:{second:02}.{fraction}Z {line}\r",
    "kubectl zone": "2019-03-02T10:25:{second:02}+0{rank}:30 {line}",
    "kubectl tag": "2019-03-02T10:25:{second:02}.{fraction}Z [1,{rank}]<stdout>:{line}",
    "kubectl label": "2019-03-02T10:25:{second:02}.{fraction}Z [{rank}] {line}",
    "tag and label": "[1,{rank}]<stdout>:[7] {line}",
    "tag and time": "[1,{rank}]<stdout>:2019-03-02T10:25:{second:02}Z {line}",
    "no day": "2019-13-02T10:25:{second:02}Z {line}",
    "two times": "Sat Nov 21 00:19:{second:02} 2026[1,{rank}]<stdout>:2019-03-02T10:25:{second:02}.5Z {line}",
    "pod": "[pod/trainer-{rank}/main] {line}",
    "compose": "svc-{rank}  | {line}",
    "Kubeflow": "INFO|2019-02-13T23:06:{second:02}|/opt/launcher.py|27| {line}",
    "Airflow": "[2021-05-14 19:43:{second:02},{fraction:.3}] {{x.py:1}} INFO - [1,{rank}]<stdout>:{line}",
    "pasted": "> {line}",
    "indented": "    {line}",
    "blanks behind": "{line}  ",
    "time behind": "{line} 15870774{second:02}",
    "exact time behind": "{line} 15870774{second:02}.25",
    "text behind": "{line} ok",
    "ANSI": "\x1b[33m{line}\x1b[0m",
    "ANSI in a tag": "[1,{rank}]<stdout>:\x1b[33m{line}\x1b[0m",
    "ANSI before a tag": "\x1b[33m[1,{rank}]<stdout>:{line}\x1b[0m",
    "drawn again": "\b\b\b{line}",
    "another's end": "[1,{rank}]<stdout>:{line}[1,0]<stdout>:",
    "glued": "hello {line}",
}
"""A line in each shape, by name."""

ranks = st.sampled_from([0, 1, 2, 9, 10, 123])
seconds = st.integers(0, 59)
fractions = st.sampled_from(["03856711", "5", "", "123456789", "000"])


def dressed(shape, line, rank=3, second=42, fraction="25"):
    """The line in a shape."""
    return SHAPES[shape].format(line=line, rank=rank, second=second, fraction=fraction)


def lines_in(shapes, lines):
    """Lines in these shapes, of several ranks and times."""
    return st.builds(dressed, shapes, lines, ranks, seconds, fractions).map(lambda line: f"{line}\n")
