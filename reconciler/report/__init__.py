"""PURE. What a reviewer reads, built from the nouns alone: the same number reads the same in every output.

Numbers become words here and nowhere else; templates place those words, terminals print them.
"""
