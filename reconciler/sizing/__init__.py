"""PURE. What one replica carries inside its SLO, and what a demand therefore asks for."""
