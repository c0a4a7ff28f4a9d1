"""What the commands of `batchai` do, one file a noun."""
