"""Who gets in: tokens, users, what belongs to whom."""
