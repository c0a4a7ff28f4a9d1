"""The files of a run's record: their names, who writes them, and which of them a submitter may send."""

from __future__ import annotations

FOLDER = "records"  # in a run's own folder

SUBMISSION = "submission.json"  # what the submitter knows: written with the job, never changed
LABELS = "labels.json"  # tags, note, parameters
PARAMETERS = "parameters.json"  # of `log(params=…)`, written by rank 0
MACHINES = "machines/"  # a file for each machine, written beside the running ranks
WATCH = "watch.json"  # what the program that watches the run is to do; see `models.runs.watch_request`
CHANNELS = "notify.json"  # where notifications go: moved to the outbox, since the addresses are secrets
DELIVERIES = "deliveries/"  # a file for each notification and channel: when it was delivered, by whom
PREFLIGHT = "preflight.json"  # what was measured before its first rank, if it asked for that
TRIAL = "trial.json"  # of a sweep; see `records.trial_record`
HEADLINE = "headline.json"  # the headline metric, by the program that watches the run
PART = ".part"  # how the names of files end that are still being written

SUBMITTED = (SUBMISSION, LABELS, WATCH, CHANNELS, TRIAL)  # what `Backend.create` stores with the job
MAX_BYTES = 4 << 20  # of all that a submitter sends; of each file that is read
