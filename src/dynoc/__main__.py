"""python -m dynoc: see _command_line.py. There is nothing else here, as the program takes this module's place."""

from dynoc import _command_line

if __name__ == "__main__":
    _command_line.main()
