"""PURE. The devices there are: configured pools, else what nodes offer and pods hold."""
