"""PURE. Upstream's VariantAutoscaling (three forms of spec, three shapes of status) and its ConfigMaps."""
