"""PURE. The quantities a run asks for: name, unit, labels and the PromQL that engines offer for each."""
