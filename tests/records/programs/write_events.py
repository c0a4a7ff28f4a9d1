"""Writes an event file with TensorBoard's own writer: old and new scalars, and a large text between them."""

import sys

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util.tensor_util import make_tensor_proto

writer = EventFileWriter(sys.argv[1])


def add(step, *values):
    writer.add_event(Event(wall_time=1000.0 + step, step=step, summary=Summary(value=values)))


add(0, Summary.Value(tag="train/loss", simple_value=2.5))
metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
add(1, Summary.Value(tag="notes", tensor=make_tensor_proto("x" * 200_000), metadata=metadata))
scalars = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
add(2, Summary.Value(tag="accuracy", tensor=make_tensor_proto(0.75, dtype="float32"), metadata=scalars))
add(3, Summary.Value(tag="rate", tensor=TensorProto(dtype=2, double_val=[180.5]), metadata=scalars))
add(4, Summary.Value(tag="weights", tensor=make_tensor_proto([1.0, 2.0], dtype="float32")))
writer.close()
print("{}")
