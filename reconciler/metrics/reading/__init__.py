"""PURE. What the answers mean: whose a series is, and what each model, variant and replica reports."""
