"""PURE. What a cluster's repository builds, and the file, line and field of each value of a built object.

`build_fleet` builds every cluster of a commit: Kustomize, and what Flux and Argo CD change on the way.
`effective_place` says where an edit changes a number, or why there is no such place.
"""
