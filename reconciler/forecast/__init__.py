"""PURE. Quantiles of the largest rate within the time that a change will serve, learned from all series of a fleet."""
