"""`mlflow server` for tests; the port is the first argument, the folder the second."""

import os
import sys

port, folder = sys.argv[1:]
os.chdir(folder)
os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # eight processes more, each of which loads it all
backend = f"sqlite:///{folder}/mlflow.db"
words = ["server", "--host", "127.0.0.1", "--port", port, "--workers", "1", "--backend-store-uri", backend]
os.execv(sys.executable, [sys.executable, "-m", "mlflow", *words])
