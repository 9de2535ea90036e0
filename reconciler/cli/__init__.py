"""The command line: one module per command. Data goes to stdout, logs and progress to stderr; never a prompt."""
