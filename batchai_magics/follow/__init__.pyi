from .event_loop import (
    BACKOFF_FACTOR as BACKOFF_FACTOR,
    MAX_DELAY_S as MAX_DELAY_S,
    MAX_RETRY_DELAY_S as MAX_RETRY_DELAY_S,
    endings as endings,
    events as events,
)
from .event_types import (
    ConnectionLost as ConnectionLost,
    ConnectionRestored as ConnectionRestored,
    Event as Event,
    LogBytes as LogBytes,
    LogFault as LogFault,
    MetricsAdded as MetricsAdded,
    NodesChanged as NodesChanged,
    StateChanged as StateChanged,
)
from .follower import METRICS_FILE as METRICS_FILE, Follower as Follower
from .job_pollers import QueueChanged as QueueChanged, UsageSampled as UsageSampled
