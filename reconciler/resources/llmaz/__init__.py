"""PURE. llmaz: OpenModel, Playground, Service, BackendRuntime and its global settings, and what they mean together."""
