"""What all live views share: polled models, outputs, the publisher, flow control, open pages."""
