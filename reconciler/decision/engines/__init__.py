"""PURE. Sizing engines: what each asks, what it lacks, and what it requires of the optimizer."""
