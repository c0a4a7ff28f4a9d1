"""Programs and actors of jobs on Ray: the standard library, and Ray where it runs them."""
