"""PURE. Passes over a staged plan: open proposals, draining, independence of pull requests, devices."""
