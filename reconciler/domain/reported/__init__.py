"""What people are told beside a plan: of a merge, of a review, of the health of all that a run needs."""
