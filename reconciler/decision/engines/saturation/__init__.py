"""The engine `saturation`, and what its family is told of replicas."""
