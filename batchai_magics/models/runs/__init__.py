"""What users attach to a run: labels, parameters, notifications, exports and how it is watched.

Standard library only: the programs of nodes import these modules, as `records` does.
"""
