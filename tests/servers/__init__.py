"""Servers for tests, on 127.0.0.1 and in this process."""
