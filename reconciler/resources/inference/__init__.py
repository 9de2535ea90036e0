"""PURE. The inference gateway: pools, objectives, models and rewrites, and how important they make a scale target."""
