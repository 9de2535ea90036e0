"""PURE. Quantities as queries to one cluster: labels spelled, namespaces named, split where an answer is too large."""
