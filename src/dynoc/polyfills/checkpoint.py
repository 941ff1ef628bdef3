"""torch.utils.checkpoint, as it is where no gradients are recorded: there is nothing to keep, and nothing to make again."""


def checkpoint(function, *args, use_reentrant, preserve_rng_state=True, early_stop=True, **kwargs):
    """Call the function."""
    return function(*args, **kwargs)
