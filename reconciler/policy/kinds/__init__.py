"""PURE. One file for each kind of rule: its fields, what it asks of the optimizer, and what it says of a change."""
