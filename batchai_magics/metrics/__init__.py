"""Numbers from training logs: bytes in any chunking become records, series and summaries.

pandas and matplotlib are imported only when a frame or a plot is asked for.
"""

from batchai_magics.metrics.charts.figure import figure_png, save_figure
from batchai_magics.metrics.charts.run import plot
from batchai_magics.metrics.reading.parser import Parser
from batchai_magics.metrics.record import (
    EvalRecord,
    HeaderRecord,
    PatternRecord,
    Record,
    StepRecord,
    TotalRecord,
    ValueRecord,
)
from batchai_magics.metrics.runs.comparison import Comparison, compare
from batchai_magics.metrics.runs.read import LogMetrics, read_metrics
from batchai_magics.metrics.runs.scalability import Scaling, scaling
from batchai_magics.metrics.runs.series import by_rank, frame, interval_rates
from batchai_magics.metrics.runs.speeds import Speed
from batchai_magics.metrics.runs.summary import LossTrend, Summary, summarize
from batchai_magics.metrics.runs.tidy import tidy

__all__ = [
    "Comparison",
    "EvalRecord",
    "HeaderRecord",
    "LogMetrics",
    "LossTrend",
    "Parser",
    "PatternRecord",
    "Record",
    "Scaling",
    "Speed",
    "StepRecord",
    "Summary",
    "TotalRecord",
    "ValueRecord",
    "by_rank",
    "compare",
    "figure_png",
    "frame",
    "interval_rates",
    "plot",
    "read_metrics",
    "save_figure",
    "scaling",
    "summarize",
    "tidy",
]
