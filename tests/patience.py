"""How long a test waits for what is to happen before it gives up.

Every deadline of the tests comes from here. It is long because a wait that succeeds costs nothing: only a
test that fails waits so long. A machine that is slower still sets TEST_PATIENCE to 2 or more.
"""

import os

PATIENCE_S = 300.0 * float(os.environ.get("TEST_PATIENCE", "1"))
