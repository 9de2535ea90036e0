"""Pull requests of GitHub and GitHub Enterprise Server."""
