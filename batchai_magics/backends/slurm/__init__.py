"""Jobs on a Slurm cluster: Slurm gives the nodes, the files of a folder that all nodes share tell the rest.

`client` runs Slurm's commands, `cli_args` builds them, `parse` reads their output. What runs on the nodes is
in `node` and needs the standard library alone.
"""
