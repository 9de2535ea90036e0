"""PURE. Where the numbers of a declaration are written, and what keeps them from being ours to change."""
