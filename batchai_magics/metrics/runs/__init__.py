"""What the records of a log come to: series, summaries, comparisons, scaling."""
