"""How far a run is, from the bars and counts that it prints."""
