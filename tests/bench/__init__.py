"""Benchmarks: how fast, how large, and how many requests. `python -m tests.bench` measures; no time is asserted.

`fleet` makes a GitOps repository and what Prometheus would say of it, `replay` times a plan of it act by act, `sizing`
the queueing laws alone. `problems` draws what the optimizer is given, `optimizer` times it and says how good its plans
are.
"""
