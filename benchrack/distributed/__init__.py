"""A case with a process a device, on one machine or several. It imports execution."""
