"""How far a run has come, from the progress bars and counters it prints."""
