"""Stories of guard rails: what a team's rules make of a load, from Prometheus and Git to the pull request's words."""
