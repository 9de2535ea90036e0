"""Init: looks at a repository and writes the configuration that it infers, and the files that run the job."""
