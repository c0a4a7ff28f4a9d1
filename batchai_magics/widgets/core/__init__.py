"""What all live views share: cell outputs, feeds, the publisher, flow control, open pages."""
