"""PURE. Policy files -> rules, and everything that is wrong with them at its line."""
