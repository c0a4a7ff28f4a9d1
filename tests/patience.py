"""The timeout for everything that tests wait for.

It is long because a successful wait costs nothing: only failing tests wait that long. For a slow machine, set
TEST_PATIENCE to 2 or more.
"""

import os

PATIENCE_S = 300.0 * float(os.environ.get("TEST_PATIENCE", "1"))
# Of nbclient: for a cell, for a kernel to start, and for outputs still on their way when a cell has ended.
NOTEBOOK_TIMEOUTS = dict.fromkeys(("timeout", "startup_timeout", "iopub_timeout"), int(PATIENCE_S))
