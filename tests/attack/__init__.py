"""Random problems against an independent formulation: few in the gate, thousands by `make attack`."""
