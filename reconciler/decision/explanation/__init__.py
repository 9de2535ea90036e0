"""PURE. Decisions told: their numbers, verdicts, and the steps and figures behind them."""
