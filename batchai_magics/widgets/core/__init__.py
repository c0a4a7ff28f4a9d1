"""What all live views share: polled models, streams to pages, outputs, the publisher, flow control."""
