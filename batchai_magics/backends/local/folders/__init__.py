"""Folders that only this machine has: mounts, and MPI's shared memory."""
