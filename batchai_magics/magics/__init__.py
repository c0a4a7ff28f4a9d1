"""The magics `%%batchai_job`, `%batchai` and `%az`. Thin: parse, call, display."""
