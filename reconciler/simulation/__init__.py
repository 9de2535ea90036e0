"""PURE. A fleet over time: what replicas that arrive late make of a load."""
