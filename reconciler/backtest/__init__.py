"""PURE. What would have been: `decide` over recorded time in a simulated fleet, and other ways to scale beside it."""
