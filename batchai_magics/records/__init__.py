"""Run records: what a run keeps about itself, beside its logs.

Pure and standard library only: clients, supervisors and the programs of nodes import the same modules. The
files of a run's record lie in the folder `records` of the run's own folder, created with it.
"""
