from .capabilities import (
    Capabilities as Capabilities,
    Pace as Pace,
    check_supported as check_supported,
)
from .facets import (
    Cleaning as Cleaning,
    CommandBytes as CommandBytes,
    CommandEnd as CommandEnd,
    CommandOutput as CommandOutput,
    NodeCommands as NodeCommands,
    Ownership as Ownership,
    Preemption as Preemption,
    Prices as Prices,
    Records as Records,
    SetupLogs as SetupLogs,
    StoredItem as StoredItem,
    Telemetry as Telemetry,
    Usages as Usages,
)
from .status_poller import (
    StatusPoller as StatusPoller,
)
from .protocol import (
    ACCOUNTS as ACCOUNTS,
    CLEANING as CLEANING,
    CONTAINERS as CONTAINERS,
    FACETS as FACETS,
    GROUPS as GROUPS,
    NODE_COMMANDS as NODE_COMMANDS,
    OWNERSHIP as OWNERSHIP,
    PREEMPTION as PREEMPTION,
    RECORDS as RECORDS,
    SETUP_LOGS as SETUP_LOGS,
    STORAGE as STORAGE,
    TELEMETRY as TELEMETRY,
    PRICES as PRICES,
    USAGES as USAGES,
    Facet as Facet,
    Backend as Backend,
)
from .storage import (
    Accounts as Accounts,
    Copy as Copy,
    Groups as Groups,
    ShareFile as ShareFile,
    Storage as Storage,
)
from .file_chunks import (
    BEFORE_BYTES as BEFORE_BYTES,
    Bookmark as Bookmark,
    Chunk as Chunk,
    FileRef as FileRef,
    RedactedSpan as RedactedSpan,
    Seal as Seal,
    Span as Span,
    WriteTime as WriteTime,
    fault_text as fault_text,
)
from .resource_requests import (
    JobNeeds as JobNeeds,
    Listing as Listing,
    NewJob as NewJob,
    Page as Page,
    Patch as Patch,
    Spec as Spec,
    StatusSnapshot as StatusSnapshot,
)
