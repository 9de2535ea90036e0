"""PURE. A recording becomes a snapshot, a snapshot becomes a plan: joins resources, metrics, sizing and optimizer.

`read_declaration` reads what Git says, `read_snapshot` joins it with what Prometheus said, `decide` decides.
"""
