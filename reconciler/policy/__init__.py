"""PURE. Guard rails: rules as data, what they allow of a variant, and what they say of a finished plan."""
