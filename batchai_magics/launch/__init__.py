"""Turns a job description and its nodes into a Plan: what each node starts, in which environment. Pure.

`plan` contains only the Plan and needs only the standard library. Nothing is imported here, so that programs
that read a plan do not load the models.
"""
