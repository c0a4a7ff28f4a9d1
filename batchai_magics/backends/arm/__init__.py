"""Jobs at any endpoint that speaks the Batch AI protocol and Azure Files: `batchai serve`, or Azure's own."""
