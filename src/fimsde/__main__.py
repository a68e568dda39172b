"""`python -m fimsde`: the program, where its script is not on the path."""

from fimsde.interface.cli import program

if __name__ == "__main__":
    program()
