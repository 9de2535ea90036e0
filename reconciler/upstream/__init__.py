"""PURE. Rules of other programs reproduced, their flaws included: llm-d's WVA, inferno."""
