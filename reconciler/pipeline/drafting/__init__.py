"""From a plan to what would be written: value-only edits, proven, and the texts that propose them."""
