"""Logs of one model on several numbers of processes, and handles of jobs that have written them."""

from batchai_magics.metrics import LogMetrics, read_metrics
from batchai_magics.models.runs.labels import Labels
from tests.metrics.log_text import HEADER, step, total


class Handle:
    """A job's handle as far as a comparison knows it."""

    def __init__(self, name, metrics, *tags, is_done=True, **parameters):
        self.name, self.is_done = name, is_done
        self._metrics, self._labels = metrics, Labels(tags, parameters=parameters)

    def records(self):
        return list(self._metrics.records)

    def labels(self):
        return self._labels


def log(ranks, rate, *, model="resnet50", batch=32, steps=(1, 10, 20, 30, 40), device="gpu") -> LogMetrics:
    """A run of which one rank's lines are there: `rate` images/sec of each process."""
    devices = [f"horovod/{device}:{rank}" for rank in range(ranks)]
    header = HEADER.replace("resnet50", model).replace("128 global", f"{batch * ranks} global")
    header = header.replace("32 per device", f"{batch} per device")
    before, _, after = header.partition("Devices:     ")
    header = f"{before}Devices:     {devices}\n{after.partition(chr(10))[2]}"
    lines = "\n".join(step(number, rate, loss=f"{5 - number / 10:.3f}") for number in steps)
    return read_metrics(f"{header}{lines}\n{total(rate * ranks)}\n".encode())
