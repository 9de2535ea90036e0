"""EDGE. The only door to git: one commit read as bytes, one commit written, branches pushed with a lease.

No work tree is ever made, so no symbolic link, hook, filter or newline conversion of a repository takes part.
`open_directory` reads a repository where it lies; `clone_base` makes a private clone that may also be pushed from.
"""
