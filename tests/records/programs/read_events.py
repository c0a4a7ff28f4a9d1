"""Reads a folder with TensorBoard's own reader: the scalars of each run, as JSON."""

import json
import sys

from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

runs = EventMultiplexer().AddRunsFromDirectory(sys.argv[1])
runs.Reload()
found = {
    run: {tag: [[s.step, s.value, s.wall_time] for s in runs.Scalars(run, tag)] for tag in tags["scalars"]}
    for run, tags in runs.Runs().items()
}
print(json.dumps(found))
