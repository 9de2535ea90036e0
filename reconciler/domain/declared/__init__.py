"""PURE. What the repository declares, resource by resource, before anything is joined."""
