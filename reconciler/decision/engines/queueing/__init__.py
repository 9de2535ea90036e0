"""The engine `queueing`."""
