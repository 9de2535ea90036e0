"""EDGE. Review: heads of other people read as data, judged beside the base, and told under their pull requests."""
