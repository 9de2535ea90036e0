"""PURE. After the merge: what a change promised, what came of it, and what follows where that was broken."""
