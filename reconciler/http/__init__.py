"""EDGE. The one door to HTTP: every request goes through `Door`, and nothing else opens a connection.

`door` asks, `credentials` are sent, `failures` come back as values, and `redaction` keeps secrets out of every text.
"""
