"""Library functions that are written in C, as Python functions: what the recorder follows in their place.

One module for each of the library's (`einsum` has what a call of that function is made of).
None is imported before a recording meets something that stands in it.
"""
