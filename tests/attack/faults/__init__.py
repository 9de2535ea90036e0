"""What goes wrong between a run and everything outside it, and that the next run heals it."""
