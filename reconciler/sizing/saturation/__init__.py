"""PURE. Sizing by how full replicas are: KV cache, queue and tokens, for models whose SLO nobody states.

`size_saturation` turns what replicas report into requirements for the optimizer, in tokens where their capacity in
tokens is known, else in replicas.

Nothing is kept between calls: what earlier runs would have remembered is replayed from the history of the metrics
(`replay_bounds`, `replay_capacities`). Missing values are None with a reason; whatever comes in, an answer with reasons
comes out, never an exception.
"""
