"""What a notebook types: `%%batchai_job`, `%batchai`, `%az`. Thin: parse, call, display."""
