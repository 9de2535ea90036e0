"""Sizes LLM inference on Kubernetes from Git and Prometheus, and proposes it as pull requests."""

__version__ = "0.1.0"
