"""Jobs, from submitting to the last byte: what they and their commands cost."""
