"""PURE. What a cluster's repository builds, and in which file, line and field a value of a built object stands.

`build_fleet` builds every cluster of a commit: Kustomize, and what Flux and Argo CD change on the way.
`effective_place` says where an edit changes a number, or why there is no such place.
"""
