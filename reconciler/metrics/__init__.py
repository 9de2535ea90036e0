"""PURE. What to ask Prometheus (PromQL as data), whose a series is, and what the answers mean.

`queries.queries_for` is all that a run asks about replicas and models, `devices` about nodes, `tracked_queries` about
metric targets. `observed.read_observed` reads the answers: a value with its unit, or why there is none. `engines` has
one file for each serving engine.
"""
