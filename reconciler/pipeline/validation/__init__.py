"""What can be said of resources and configuration without asking anybody: a commit, or files on disk."""
