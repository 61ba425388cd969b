"""Loading weights from URLs into the memory of a device."""
