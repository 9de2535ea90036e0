"""PURE. Decisions as pull requests: which part of its group each is in, and what stands against one."""
