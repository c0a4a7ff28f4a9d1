"""A job description and its nodes become a Plan: what each node starts, and its environment. Pure.

`plan` holds the Plan alone, which needs the standard library only; nothing is imported here, so that the
programs that only read one do not load the models.
"""
