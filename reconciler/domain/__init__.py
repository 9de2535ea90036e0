"""PURE. The nouns everything else speaks in: frozen dataclasses in base units, the seam between the acts.

Nothing here reads a file, asks a server, or knows how any of these values came about.
"""
