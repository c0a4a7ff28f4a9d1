"""The live view of a job."""
