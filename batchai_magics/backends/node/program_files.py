"""The files of the package that run on nodes, where there is only Python, and all that they import."""

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
    *("metrics/formats", "metrics/grammar", "metrics/reading", "models/runs", "records"),
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
