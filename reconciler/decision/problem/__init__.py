"""PURE. From variants and what engines require to the optimizer's problem."""
