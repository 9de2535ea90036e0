"""EDGE. The one door to Prometheus: a question goes out, bytes come back, or a sentence that says why not.

Faults outside are answers, never exceptions; a credential that cannot be read or sent is a ConfigurationError.
"""
