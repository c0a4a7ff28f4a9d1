"""The programs of nodes, where there is only Python: all their files, and the command that starts one."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[2]
_FILES = (
    "launch/outcome.py",
    "launch/plan.py",
    "launch/references.py",
    "backends/folders/private_files.py",
    "backends/folders/layout.py",
    "backends/folders/run_end.py",
    "models/states.py",
    # watches the run
    "backends/folders/rank_files.py",
    "backends/folders/notification_sending.py",
    "backends/folders/outbox.py",
    "backends/folders/run_measures.py",
    "backends/folders/run_watch.py",
    "backends/folders/rank_files.py",
    "metrics/runs/log_records.py",
    "errors.py",
    "log_lines.py",
    "metrics/column.py",
    "metrics/measurement.py",
    "metrics/measurement_table.py",
    "metrics/programs.py",
    "metrics/runs/fits.py",
    "metrics/runs/mean_rates.py",
    "metrics/runs/metric_summary.py",
    "metrics/runs/metric_traits.py",
    "metrics/runs/resource_usage.py",
    "metrics/runs/resumed_attempts.py",
    "metrics/runs/run_header.py",
    "metrics/runs/run_metrics.py",
    "metrics/runs/steady_speed.py",
    "metrics/runs/step_series.py",
    "metrics/runs/stop_evaluation.py",
    "metrics/runs/tidy_table.py",
    "metrics/runs/timeline.py",
    "models/prices.py",
    "models/resource_ids.py",
    "models/response_object.py",
    "models/secret_masking.py",
    "models/stop_conditions.py",
    "models/telemetry_records.py",
    "models/wire_times.py",
    "options/regular_expressions.py",
    "untrusted_files.py",
)
_FOLDERS = (
    *("backends/node", "backends/node/ranks"),
    *("metrics/grammar", "metrics/reading", "models/runs", "records"),
)


def program_files(*folders: str) -> list[str]:
    """Their paths relative to the package, with those in these folders.

    No `__init__` on these paths imports anything else.
    """
    found = [
        path.relative_to(PACKAGE)
        for folder in (*_FOLDERS, *folders)
        for path in (PACKAGE / folder).glob("*.py")
    ]
    return sorted({*_FILES, *map(str, found)})


RUN_COMMAND = "batchai_magics.backends.node.run_command"  # runs a shell command on a node
# Any Python parses the first two steps: a version that is too old reports so before it reaches newer syntax.
_START = (
    "import os, sys; sys.version_info >= (3, 10) or sys.exit('Python 3.10 or newer is needed on the nodes,'"
    " + ' and ' + sys.executable + ' is ' + sys.version.split()[0] + ': set {section}.python');"
    " root = sys.argv.pop(1); os.path.isdir(root) or"
    " sys.exit('%s does not see %s: set {section}.home to a folder that all nodes share'"
    " % (os.environ.get('SLURMD_NODENAME', 'this node'), root));"
    # after the standard library, before packages, which may contain another version of this one
    " sites = [path for path in sys.path if path.endswith(('site-packages', 'dist-packages'))];"
    " sys.path.insert(sys.path.index(sites[0]) if sites else len(sys.path), root);"
    " from {module} import main; main()"
)


def start_words(
    python: str, module: str, programs: Path | str, *, section: str = "slurm", has_packages: bool = False
) -> list[str]:
    """The command that runs a module's `main` from a folder of programs; its arguments are appended.

    It can import only the standard library, unless `has_packages`. `section` has the settings to correct.
    """
    flags = [] if has_packages else ["-S"]
    return [python, "-I", *flags, "-c", _START.format(section=section, module=module), str(programs)]


def own_folder() -> str:
    """The folder of programs that this program was started from."""
    return str(PACKAGE.parent)
