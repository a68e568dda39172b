"""`python -m fimsde`: the program, where its script is not on the path."""

from fimsde.interface.cli import main

if __name__ == "__main__":
    main()
