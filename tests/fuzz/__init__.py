"""Fuzzing over real manifests: whatever is done to their bytes, reading never fails and an edit changes what it should.

The cases are the same on every run. `FUZZ_TIMES=20 make test PYTEST_ARGS="-n auto tests/fuzz"` makes twenty times as
many; the first ones are always the usual ones.
"""
