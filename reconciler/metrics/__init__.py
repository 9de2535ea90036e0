"""PURE. What to ask Prometheus (PromQL as data), whose a series is, and what the answers mean.

`queries_for` asks about the present and, by `QueryNeeds`, more; `device_queries` about nodes, `live_queries` about
scale targets, `history_queries` about any stretch of time. `read_observed` reads the answers: a value with its unit, or
why there is none. What is asked of each serving engine stands in `engines`.
"""
