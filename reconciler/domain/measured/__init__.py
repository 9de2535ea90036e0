"""What is asked of Prometheus, what it answers, and what the answers mean."""
