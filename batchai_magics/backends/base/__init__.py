"""The Backend protocol: a few operations on typed resources, the same wherever jobs run.

Promises, each with a contract test in tests/contract:

 1. `create` is atomic: when it raises, nothing of the resource exists.
 2. Creating an identical resource returns it; a different one of that name raises ConflictError.
 3. A status is never wrong: after any crash the next `show` reports the actual state.
 4. `read` is by byte offset and repeatable, returns only complete data, and reports when a file is final.
 5. Several processes may use one backend at once.
 6. Credentials and secrets are write-only; a log chunk lists the spans in which a job printed one.
 7. Every error is a class of errors.py, with the service's error code where there is one.
 8. No method blocks for a job's duration; only `follow` waits.
 9. `terminate` ends every process of the job; `delete` of a job does that first; a command on a node ends
    when its output is no longer read.
10. A spec beyond `capabilities` is rejected, naming the field, before anything is sent or written; `check`
    does so before the files of a job are stored.
11. Uploads are atomic and resumable, and their digest is checked.
12. `status` reports for each job and cluster what `show` does, in one request for any number of them.
13. `tail` returns the bytes of `read` for all logs at once; repeatable; a truncated log restarts at 0.
14. The pages of a list add up to the list; each continues where the previous one ended, whatever was
    created or deleted in between.
15. When a job has ended, the exit code, node and time of every rank are reported, the first failure first.
16. A missing facet is None; requiring it raises an error that names it.
17. Only regular files are read, without blocking: a pipe, socket, device or dangling link is listed by its
    kind, and reading it raises an error with that reason.
18. A chunk distinguishes a replaced or truncated and rewritten file from the one that was read before.
19. `names` keeps the order of `list`; prefixes are matched case-insensitively.
20. A finished log has a seal: the bytes written, their digest, and the bytes lost to write errors.
21. Telemetry samples are reported once and in order of time; asking for those after the last one returns
    the newer ones.
22. The owner passed to `create` is recorded atomically with the resource and deleted with it; creating an
    identical resource does not change it.
23. `ensure` creates what is missing, each part as `create` would, and leaves the rest unchanged; a job then
    finds its files at their paths below the mount of their share, also where the backend has no shares.
"""

from batchai_magics import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports.attach_stub(__name__, __file__)
