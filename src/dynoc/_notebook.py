"""`%load_ext dynoc`: the cell magic `%%dynoc`, which runs a cell under `dynoc.enabled()`.

    %%dynoc [--wait] [--backend NAME]
"""

import shlex

import dynoc

USAGE = "%%dynoc [--wait] [--backend NAME]"


def settings_of(line):
    """Arguments for `dynoc.enabled` from the rest of the magic's line."""
    settings, words = {}, shlex.split(line)
    while words:
        word = words.pop(0)
        if word == "--wait":
            settings["wait"] = True
        elif word == "--backend" and words:
            settings["backend"] = words.pop(0)
        else:
            raise dynoc.ConfigError(f"%%dynoc: {word!r} isn't understood. {USAGE}")
    return settings


def register(shell):
    def magic(line, cell):
        """Run the cell with every Python function under dynoc: %%dynoc [--wait] [--backend NAME]"""
        with dynoc.enabled(**settings_of(line)):
            shell.run_cell(cell)

    shell.register_magic_function(magic, "cell", "dynoc")
