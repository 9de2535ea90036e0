"""The engine `tracking`, and what its family makes of metric targets."""
