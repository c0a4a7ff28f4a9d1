"""Jobs on a Slurm cluster: Slurm gives the nodes, the files of a folder that all nodes share tell the rest.

`talk` runs Slurm's commands, `say` writes what is asked of them, `understand` reads what they answer. What
runs on the nodes is in `node`, of the standard library alone.
"""
