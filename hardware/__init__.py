"""Hardware descriptors as data, their loader, and what is in this machine."""
