from .charts.figure import (
    figure_png as figure_png,
    save_figure as save_figure,
)
from .charts.run_chart import (
    plot as plot,
)
from .reading.log_parser import (
    Parser as Parser,
)
from .reading.metric_suggestions import (
    MetricsWarning as MetricsWarning,
)
from .measurement import (
    Fact as Fact,
    Measurement as Measurement,
    Record as Record,
)
from .runs.comparison import (
    Comparison as Comparison,
    compare as compare,
)
from .runs.log_metrics import (
    LogMetrics as LogMetrics,
    read_metrics as read_metrics,
)
from .runs.scaling import (
    Scaling as Scaling,
    scaling as scaling,
)
from .runs.steady_speed import (
    Speed as Speed,
)
from .runs.run_summary import (
    LossTrend as LossTrend,
    Summary as Summary,
    summarize as summarize,
)
from .runs.number_frames import (
    frame as frame,
    tidy as tidy,
)
