"""PURE. What would have been: `decide` over recorded time in a simulated fleet, compared with other ways to scale."""
