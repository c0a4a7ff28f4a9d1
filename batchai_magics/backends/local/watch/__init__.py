"""The processes and steps that keep the state true: supervisor, scheduler, recovery."""
