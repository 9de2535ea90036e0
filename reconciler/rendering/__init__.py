"""EDGE. What makes texts of views and objects of directories: Jinja2, sandboxed and strict, and the real Kustomize."""
