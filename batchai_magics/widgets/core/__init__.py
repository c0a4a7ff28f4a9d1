"""What all live views share: the publisher, its budget, the pages that look, the output of the cell."""
