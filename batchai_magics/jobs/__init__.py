"""The handle of a job, and submission of requests."""
