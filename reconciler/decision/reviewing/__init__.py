"""PURE. Somebody else's change beside what a plan would do, decided on the base with the same answers."""
