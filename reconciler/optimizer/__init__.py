"""PURE. Requirements, candidates, inventory and prices in; an allocation with its proof out."""
