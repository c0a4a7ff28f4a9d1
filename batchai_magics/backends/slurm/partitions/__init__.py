"""What a partition of Slurm gives a job and a cluster, and what is asked of it."""
