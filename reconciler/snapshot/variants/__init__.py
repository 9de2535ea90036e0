"""PURE. Resources joined with scale target, settings, service class and accelerators into variants."""
