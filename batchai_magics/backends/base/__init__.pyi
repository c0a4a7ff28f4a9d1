from .capabilities import (
    Capabilities as Capabilities,
    Pace as Pace,
    refuse_beyond as refuse_beyond,
)
from .facets import (
    ACCOUNTS as ACCOUNTS,
    CLEANING as CLEANING,
    CONTAINERS as CONTAINERS,
    FACETS as FACETS,
    GROUPS as GROUPS,
    NODE_COMMANDS as NODE_COMMANDS,
    OWNERSHIP as OWNERSHIP,
    PREEMPTION as PREEMPTION,
    SETUP_LOGS as SETUP_LOGS,
    STORAGE as STORAGE,
    TELEMETRY as TELEMETRY,
    USAGES as USAGES,
    Cleaning as Cleaning,
    Facet as Facet,
    NodeCommands as NodeCommands,
    Ownership as Ownership,
    Preemption as Preemption,
    SetupLogs as SetupLogs,
    Telemetry as Telemetry,
    Usages as Usages,
)
from .status_poller import (
    StatusPoller as StatusPoller,
)
from .default_answers import (
    BackendBase as BackendBase,
    DefaultAnswers as DefaultAnswers,
)
from .protocol import (
    Backend as Backend,
)
from .storage import (
    Accounts as Accounts,
    Copy as Copy,
    Groups as Groups,
    ShareFile as ShareFile,
    Storage as Storage,
)
from .default_transfers import (
    DefaultTransfers as DefaultTransfers,
)
from .values import (
    BEFORE_BYTES as BEFORE_BYTES,
    Bookmark as Bookmark,
    Chunk as Chunk,
    CommandBytes as CommandBytes,
    CommandEnd as CommandEnd,
    CommandOutput as CommandOutput,
    FileRef as FileRef,
    RedactedSpan as RedactedSpan,
    JobNeeds as JobNeeds,
    StoredItem as StoredItem,
    Listing as Listing,
    StatusSnapshot as StatusSnapshot,
    Page as Page,
    Patch as Patch,
    Seal as Seal,
    Span as Span,
    Spec as Spec,
    WriteTime as WriteTime,
)
