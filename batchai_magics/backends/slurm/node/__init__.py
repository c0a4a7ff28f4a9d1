"""Programs that run on the nodes of a job: copied to its home, standard library only."""
