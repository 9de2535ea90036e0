"""PURE. What llm-d's workload variant autoscaler (WVA) decides, row by row the same, its flaws included.

`reproduce_percent` is the mode `wva-v1` (how far replicas are from full), `reproduce_tokens` the mode `wva-v2` (demand
against supply in tokens, where the analyzer `throughput` may vote too). Each decides all models of a cluster together,
under a `Quota` or a `DeviceBudget` where there is one, and gives finished answers.
"""
