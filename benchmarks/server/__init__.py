"""`batchai serve`: what it takes, and how soon its lines are seen."""
