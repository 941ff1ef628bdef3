"""Library functions that are written in C, as Python functions: what the recorder follows in their place.

One module for each of the library's. None is imported before a recording meets something that stands in it.
"""
