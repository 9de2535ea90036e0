"""PURE. Custom resources and native objects -> domain: one folder per system, one registry.

The only validation of user input: every value that leaves here has been checked, and every complaint has its place.

`read_file` reads the documents of one file, `read_object` an object that was built, `merge` folds the files of all
clusters into a `Declaration`; `KINDS` is what is known of each kind, and of `KIND_WORDS` one stands in every document
that is worth parsing.
"""
