"""`python -m reconciler` is the command `reconciler`."""

from reconciler.cli.main import main

if __name__ == "__main__":
    main()
