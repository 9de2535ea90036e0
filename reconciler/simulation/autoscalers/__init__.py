"""PURE. Autoscalers as they are, each in a file of its own behind one protocol (`port`)."""
