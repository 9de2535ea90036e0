"""The engines `wva-v1` and `wva-v2`, and what upstream reads beside what saturation does."""
