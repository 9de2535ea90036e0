"""PURE. Metric targets over time: what to ask of each cluster, and the answers as one history for each target.

`tracking_queries` asks one range query a metric for all targets together; `read_tracked` reads the answers, on one
grid, with what nobody knows as NaN and the reason beside it.
"""
