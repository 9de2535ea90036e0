"""PURE. YAML bytes and positions: parse within caps, locate, replace, insert, prove. Knows no Kubernetes.

Read with `parse_documents`; write with `apply_edits`, which changes only the bytes of the wanted values and proves it.
"""
