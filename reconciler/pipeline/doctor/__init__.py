"""Doctor: looks at everything that a run depends on, says how it is, and what to do; nothing is written anywhere."""
