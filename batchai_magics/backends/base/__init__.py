"""The Backend protocol: few verbs over typed resources, the same for every place jobs can run.

Promises, each with a contract test in tests/contract:

 1. `create` is all or nothing: when it raises, nothing of the resource is there.
 2. Creating the same thing again returns it; creating a different one under its name is a ConflictError.
 3. A status read never lies: after any crash the next `show` tells what is really so.
 4. `read` is by byte offset, repeatable, never past what is whole, and says when a file cannot grow any more.
 5. Two processes may use one backend at once.
 6. Credentials and secrets go in and never come back out; where a job prints one, a chunk of its log says so.
 7. Every error is one of errors.py, with the service's code where it has one.
 8. No verb blocks for a job's duration; waiting is `follow`'s alone.
 9. `terminate` ends every process of the job; `delete` of a job does that first; a command on a node ends
    when nobody reads what it writes any more.
10. A description that needs more than `capabilities` is refused by name before anything is sent or written.
11. A file is on a share whole or not at all; an upload that stopped goes on, and its digest is checked.
12. A look tells of each job and cluster what `show` tells; it is one question, however many there are.
13. A tail gives the bytes that `read` gives, of every log at once; it is repeatable, and a log that was cut
    begins again.
14. Pages of a list, one after the other, are the list; each goes on where the one before it ended, whatever
    came and went meanwhile.
15. When a job has ended, every rank's exit code, node and time are told, and the first that failed is first.
16. A facet that a backend has not is None, and who asks for it is told its name.
17. Only regular files are read, and nothing is waited for: a pipe, a socket, a device or a link that leads
    nowhere is listed as what it is, and who reads it is told so.
18. A chunk tells a file that was replaced, or cut and written anew, from the one that was read before.
19. Names are told in the order of the list, those that begin so; letter case is nothing there.
20. A finished log has a seal: how many bytes were written, their digest, and how many no disk has taken.
21. Samples of what ranks use are told once and in the order of their times; asking for them again, after
    the last, gives those that came since.
22. The owner that `create` is given is recorded with the resource, in one step, and is forgotten with it;
    creating the very same thing again does not change it.
23. `ensure` creates what is missing, each part as `create` would, and leaves what is there as it is.
"""

from batchai_magics import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports.attach_stub(__name__, __file__)
