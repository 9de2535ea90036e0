"""PURE. What a kustomization builds: its rules followed step by step, without running anything."""
