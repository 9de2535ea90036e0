"""What a real Kubernetes API server makes of our manifests; skipped by name where there is none."""
