"""A captured graph as Python shows it: its text, with the methods a user of torch.fx looks for.

Made by the extension for ``entry.graph``.
"""


class Graph:
    """A captured graph. ``str(graph)`` is its text.

    Parameters
    ----------
    text : str
        The graph, one node a line, as src/tracer prints it.
    """

    __slots__ = ("_text",)

    def __init__(self, text):
        self._text = text

    def __str__(self):
        return self._text

    def __repr__(self):
        return f"<dynoc graph of {len(self._text.splitlines())} lines>"

    def print_readable(self, print_output=True):
        """Print the graph and return its text.

        Parameters
        ----------
        print_output : bool
            False: return the text only.

        Returns
        -------
        str
        """
        if print_output:
            print(self._text)
        return self._text
