"""Run records: the files that a run keeps about itself, beside its logs.

Pure and standard library only: clients, supervisors and the programs of nodes import the same modules. The
files lie in the folder `records` of the run's own folder, created with it.
"""
