"""PURE. Autoscalers that act in the cluster, tuned on recorded days: `reproduce` what ran, then `choose` a setting."""
