"""PURE. Learning a performance profile from history, and correcting one by what its replicas do now.

`fit_profile` goes from samples to a `Fit` of the law `serial_prefill` or `prefill_decode`, whichever explains them, or
of `decode_only` where prefill cannot be told, or to an `Unfit` that says why: a profile that was guessed is worse than
none. `why_outside` says of which loads a learned profile knows nothing. `correct` compares a profile with recent
traces: a bounded factor of capacity; `find_contradiction` says when they are too far apart for that.

Nothing is drawn at random, and the order of samples makes no difference.
"""
