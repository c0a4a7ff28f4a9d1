"""Numbers from training logs: bytes in any chunking become records, series and summaries.

pandas and matplotlib are imported only when a frame or a plot is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchai_magics.late_names import late_names

if TYPE_CHECKING:
    from batchai_magics.metrics.charts.figure import figure_png, save_figure
    from batchai_magics.metrics.charts.run_chart import plot
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
    from batchai_magics.metrics.runs.log_metrics import LogMetrics, read_metrics
    from batchai_magics.metrics.runs.scaling import Scaling, scaling
    from batchai_magics.metrics.runs.series import by_rank, frame, interval_rates
    from batchai_magics.metrics.runs.speeds import Speed
    from batchai_magics.metrics.runs.summary import LossTrend, Summary, summarize
    from batchai_magics.metrics.runs.tidy import tidy

# Where each name lives.
_HOMES = {
    "Comparison": "metrics.runs.comparison",
    "EvalRecord": "metrics.record",
    "HeaderRecord": "metrics.record",
    "LogMetrics": "metrics.runs.log_metrics",
    "LossTrend": "metrics.runs.summary",
    "Parser": "metrics.reading.parser",
    "PatternRecord": "metrics.record",
    "Record": "metrics.record",
    "Scaling": "metrics.runs.scaling",
    "Speed": "metrics.runs.speeds",
    "StepRecord": "metrics.record",
    "Summary": "metrics.runs.summary",
    "TotalRecord": "metrics.record",
    "ValueRecord": "metrics.record",
    "by_rank": "metrics.runs.series",
    "compare": "metrics.runs.comparison",
    "figure_png": "metrics.charts.figure",
    "frame": "metrics.runs.series",
    "interval_rates": "metrics.runs.series",
    "plot": "metrics.charts.run_chart",
    "read_metrics": "metrics.runs.log_metrics",
    "save_figure": "metrics.charts.figure",
    "scaling": "metrics.runs.scaling",
    "summarize": "metrics.runs.summary",
    "tidy": "metrics.runs.tidy",
}

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

if not TYPE_CHECKING:  # a checker would take any name for one of these
    __getattr__, __dir__ = late_names(__name__, _HOMES)
