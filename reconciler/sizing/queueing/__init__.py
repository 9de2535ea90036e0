"""PURE. Sizing by a queue: one replica as a birth-death chain, solved for all candidates at once.

A queueing law says how long a request stays in service at batch n, and what latencies follow from the means of the
chain. It becomes `ServiceCurves`; everything behind them (`analyze`, `largest_rate`) is the same for every law. The
laws: `decode_only`, inter-token latency alpha + beta * n and a request is its output tokens; `prefill_decode`, which
adds a prefill of gamma + delta * input tokens * n; `serial_prefill`, where prompts queue for what iterations have room
for.

Struct of arrays everywhere: element i of every array belongs to candidate i. SI units.
"""
