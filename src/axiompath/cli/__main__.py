"""`python -m axiompath.cli` is the command `axiompath`."""

from . import main

if __name__ == "__main__":
    main()
