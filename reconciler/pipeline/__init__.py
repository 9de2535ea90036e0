"""EDGE. One run in four acts: observe, decide, draft, publish. `run.py` is the list of calls."""
