"""Merge requests of GitLab.com and self-managed GitLab, as pull requests."""
