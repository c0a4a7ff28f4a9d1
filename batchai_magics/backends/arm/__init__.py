"""Jobs at any endpoint of the Batch AI REST API and Azure Files: `batchai serve`, or Azure itself."""
