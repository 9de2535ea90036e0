"""PURE. Custom resources and native objects -> domain: one module per API group, one registry.

The only validation of user input: every value that leaves here has been checked, and every complaint has its place.
"""
