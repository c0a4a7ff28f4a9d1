"""Series, summaries, comparisons and scaling studies from the records of logs."""
