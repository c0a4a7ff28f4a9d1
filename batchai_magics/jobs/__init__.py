"""The handle of a job, and how a cell's request becomes one."""
