"""PURE. Sizing by metric targets: the replicas at which every replica sees what its policy says, as Kthena tracks it.

`track` goes from targets and their history to outcomes. It runs the autoscaler's own loop over the history, tick by
tick and for all targets at once (`replay`), so that nothing is remembered between runs. `Rule` says whose loop:
`TRACKING` is ours, `KTHENA_V0_CORRECTED`, `KTHENA_V0` and `KTHENA_V1` reproduce upstream's generations. Inside the
loop a tick is `recommend`, a test for panic, `correct` against five windows, and for roles a ratio.

What a policy says are nouns (`domain.tracking`); what pods and queries answered over time comes from elsewhere.

Struct of arrays inside: the last axis of every array is targets. Percents are whole numbers, because the rule
truncates them in integers; times are seconds outside, whole milliseconds inside.
"""
