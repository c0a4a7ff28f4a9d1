"""The timeout for everything that tests wait for.

It is long because a successful wait costs nothing: only failing tests wait that long. For a slow machine, set
TEST_PATIENCE to 2 or more.
"""

import os

PATIENCE_S = 300.0 * float(os.environ.get("TEST_PATIENCE", "1"))
