"""`python -m research`, in the root of the repository."""

from axiompath.cli import main

if __name__ == "__main__":
    main("research.cli.app")
