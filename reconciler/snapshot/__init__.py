"""PURE. A recording becomes the typed snapshot that everything is decided from.

Declarations, variants, settings, catalogs, places and inventory, joined with what the answers say.
"""
