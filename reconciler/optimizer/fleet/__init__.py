"""PURE. All models together: pools, budgets, priorities and what a change costs, with a bound on any better plan."""
