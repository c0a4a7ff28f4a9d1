from .event_loop import (
    MAX_DELAY_S as MAX_DELAY_S,
    PollBackoff as PollBackoff,
    changes as changes,
    endings as endings,
    events as events,
)
from .job_events import (
    ConnectionLost as ConnectionLost,
    ConnectionRestored as ConnectionRestored,
    Event as Event,
    JobFailed as JobFailed,
    LogBytes as LogBytes,
    LogFault as LogFault,
    MetricMismatched as MetricMismatched,
    MetricsAdded as MetricsAdded,
    NodesChanged as NodesChanged,
    Standstill as Standstill,
    StateChanged as StateChanged,
)
from .event_loop import Follower as Follower
from .metric_streams import METRICS_FILES as METRICS_FILES
from .job_events import QueueChanged as QueueChanged, UsageSampled as UsageSampled
