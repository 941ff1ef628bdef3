"""What docs/reasons/ says of each reason besides its row of src/base/reasons.def: read by tools/graph_breaks.py.

A text is for a user who was led there by a message: what it means for the program, what it costs, and what helps.
"""

TEXTS = {
    "OPAQUE_CALL": """\
The function called a builtin, or a function of a C extension, of which dynoc doesn't know what it does. The call is
made, as Python makes it, between two graphs. Each such place costs a few microseconds, and keeps what comes before
and behind it from being fused.

What helps depends on what was called. `print`, files and clocks belong outside of the function. A function of your
own in C, or a ufunc of SciPy's, becomes a node of the graph with `dynoc.allow_in_graph(function)`, if it does nothing
but compute its result.""",
    "SKIPPED_CALL": """\
The function that is called was marked with `dynoc.skip` or `dynoc.disallow_in_graph`, in the program or in a library.
It runs as plain Python between two graphs, as the mark asks for.""",
    "USER_BREAK": """\
The program asked for a break here, with `dynoc.graph_break()`. It is a way to try out what a break costs, and to keep
a graph small.""",
    "DATA_DEPENDENT": """\
Python takes a number, a truth or a length out of an array's elements, and does something with it that no graph can
hold: uses it as a dictionary's key, a size, the number of trips of a loop. The graph ends, so that the number is
there, and the next one begins behind it.

`np.where(condition, a, b)` computes both and takes one; arrays of rank 0 stay arrays where Python numbers don't.""",
    "SIDE_EFFECT": """\
A list, dictionary or object that was there before the call is changed in a way that dynoc can't put off until the
graph has run (sorting a list by a function, say). Plain stores into attributes, lists, dictionaries and sets are no
break.

Build a new object and return it.""",
    "REQUIRES_GRAD": """\
PyTorch records gradients of what the function does, and no graph of dynoc's can stand for that here: under
forward-mode gradients, functorch or anomaly detection, in a graph that goes to another back end, or for an operation
whose gradient dynoc doesn't know. Training itself is captured: see [pytorch.md](../pytorch.md).

Where no gradients are needed, call the function under `torch.no_grad()`.""",
    "SUBCLASS": """\
An array or tensor is of a subclass (`np.matrix`, a masked array, a tensor with `__torch_function__`). What its
operations do is up to the class, so they run as plain Python.

`np.asarray(x)` or `x.as_subclass(torch.Tensor)` gives the plain array, without a copy.""",
    "DTYPE": """\
The elements are Python objects, strings, records, dates, quantised numbers, or lie in another byte order than the
machine's. No kernel computes with them.

Convert the array once, before the function that is called often: `x.astype(np.float64)`.""",
    "DEVICE": """\
The tensor lies on a device for which there is no back end here: CUDA needs a driver for CUDA 12 or newer, which
`python -m dynoc doctor` shows. Or the graph's other arrays lie elsewhere: all of a graph's are in one memory, this machine's or
one device's. The operation runs as it would without dynoc.

`x.to(y.device)` brings together what belongs together; a NumPy array is in this machine's memory.""",
    "LAYOUT": """\
The elements don't lie in memory as kernels walk it: sparse and nested tensors, unaligned arrays, more axes than there
are registers for, tensors with the conjugate or negative bit.

`np.ascontiguousarray(x)`, `x.to_dense()`, `x.resolve_conj()` give a plain array.""",
    "UNSUPPORTED_OP": """\
The array operation is known, but not in this form: an argument, a combination of dtypes or a kind of index that no
rule covers. It runs as plain Python between two graphs. [numpy_coverage.md](../numpy_coverage.md) and
[torch_coverage.md](../torch_coverage.md) list what is captured.""",
    "ALIASING": """\
Memory is written through one view and read through another, and dynoc can't tell from the sizes in which order
elements would have to be taken.

Write into a copy: `a[1:] = a[:-1].copy() * 2`.""",
    "UNSUPPORTED_VALUE": """\
An operation on a Python value of a kind that dynoc doesn't follow: an object with an unusual protocol, an iterator of
an extension, a number where its value would have to be burned in.

Keep such values out of the function, or convert them before it is called.""",
    "UNSUPPORTED_OPCODE": """\
The bytecode has an instruction that is left to CPython, such as `await` or an import with a star. What was captured
before it is kept, and CPython runs the rest of the call.""",
    "LOOP": """\
A loop runs more than sixteen times. Unrolled it would make a graph as long as the loop, and another one for each
count; so the body is a graph of its own, which each trip runs. This is not a fault.

Where the trips are independent, or each only adds to a result, an operation on whole arrays is faster by far.""",
    "GRAPH_SIZE": """\
The graph was cut because compiling it as one would take long. Both halves are compiled.""",
    "LOOKS_AT_FRAME": """\
A break would be needed in a function that may look at its own variables by name (`locals()`, `eval`, `exec`,
`super()` without arguments in a class body). Compiled code has no such variables, so CPython finishes the call.

Move that call into a function of its own.""",
    "CALLEE_BAILED": """\
A function that is called inside couldn't be recorded to its end. Messages lead with the reason and place in the
callee; the calls that lead there follow. CPython runs the callee, between two graphs.""",
    "REFERENCES": """\
The call sees how many references an object has (`sys.getrefcount`, `a.resize`). Compiled code holds fewer or more
than Python would, so CPython makes the call, in a frame that has what Python's would have.""",
    "EXCEPTION": """\
An exception was raised while the call was recorded. The program sees it as without dynoc; what was recorded before it
may be kept.""",
    "BUDGET": """\
The function does so much in Python for so few array operations that recording it on would cost more than it could
save. `dynoc.config.record_limit` is the limit.

Write the loop as operations on arrays; a loop over numbers and elements alone becomes a native loop.""",
    "NATIVE_LOOP": """\
The function has a loop over numbers and elements, which runs as a native loop. CPython runs what is around it. The
log `loops` says more.""",
    "RECURSION": """\
The call is near Python's recursion limit. dynoc needs some of the stack itself, so it leaves the call to CPython.""",
    "FORCED": """\
A test asked for it, by one of the settings that begin with `force_`.""",
    "NO_ARRAYS": """\
The function works on no arrays, and has no loop that could run natively. There is nothing to make faster.""",
    "GENERATOR": """\
Generators, coroutines and builtin functions run as they are. What a generator does to arrays is captured where it is
used up inside of an optimised function.""",
    "TRACING": """\
A debugger, profiler, coverage tool or `sys.settrace` is at work in this thread. dynoc steps aside, so that the tool
sees what it would see without dynoc. Under cProfile this means that you profile plain Python: `dynoc.profile()` and
`perf` show compiled code.""",
    "NOT_REBUILDABLE": """\
A Python value that is needed behind the break can't be made anew from what a graph gives (an iterator in its middle,
an open context). The stretch up to the break is left to CPython, at each call; recording goes on behind it.

End the value's life before the break: turn an iterator into a list first.""",
    "CACHE_LIMIT": """\
The function has `dynoc.config.cache_limit` entries, and none of them fits. Often one argument changes at each call
that dynoc has to compare by value: a string, a new function, a different module. The log `recompiles` names it.""",
    "NO_PROFIT": """\
Calls were timed both ways, and CPython was faster: the arrays are so small, or the Python around them so much, that
serving the call costs more than it saves. The function is CPython's at full speed, and is tried again later.
`dynoc.config.retire = False` switches the trial off.""",
    "DISABLED": """\
dynoc was switched off for this function or process, by `dynoc.disable()`, `dynoc.reset()` in its middle, or
`exact=True` for a graph whose bits can't be eager's.""",
    "UNKNOWN_PYTHON": """\
The extension knows CPython 3.11 to 3.15, with the global interpreter lock. On others everything runs as plain Python.""",
    "NO_MEMORY": """\
There was no memory to compile with. The function runs as plain Python.""",
    "INTERNAL": """\
A check inside dynoc failed. The function runs as plain Python, with the right results. Please report it, with the
folder that `DYNOC_DEBUG=1` writes.""",
    "LOWERING": """\
A stage between graph and code gave up. The function runs as plain Python. Please report it, with the folder that
`DYNOC_DEBUG=1` writes.""",
    "TOO_MANY_KERNELS": """\
The graph became thousands of kernels, mostly by many small arrays in a Python loop. Compiling them would take
minutes.

Work on one array that holds all of them, or cut the graph with `dynoc.graph_break()`.""",
    "NO_COMPILER": """\
There is no C compiler, so kernels run in the built-in tier: with the same bits, fused into fewer passes, but some
times slower than native code. `python -m dynoc doctor` says what was looked for.""",
    "COMPILER_FAILED": """\
The C compiler gave up. Its command and output are in the log. The built-in tier serves the function meanwhile.""",
    "COMPILER_HUNG": """\
The C compiler didn't finish within `dynoc.config.compile_timeout` seconds. The built-in tier serves the function.""",
    "CFLAGS_REFUSED": """\
A flag such as `-ffast-math` would, once an object that was linked with it is loaded, change how the whole process
rounds. It was left out; `dynoc.config.fast_math` allows the same within kernels alone.""",
    "LOAD_FAILED": """\
A compiled object couldn't be loaded: memory files and temporary folders are forbidden, or it is damaged. `python -m
dynoc cache clear` removes what is in the disk cache.""",
    "TOO_MANY_LOADED": """\
A process has room for so many shared objects, and they are all in use. Further graphs stay in the built-in tier.""",
    "BACKEND_FAILED": """\
The back end that was asked for raised, or gave something else than a callable, or than the graph's outputs. With
`dynoc.config.suppress_errors = False` a `dynoc.BackendError` says where.""",
    "DIFFERS": """\
The setting `verify` compared compiled code with eager, and they differ. The call, and all later ones, are CPython's.
This is a fault of dynoc's: please report the message and the folder that `DYNOC_DEBUG=1` writes, made small by
`python -m dynoc minify FOLDER`.""",
    "NO_FOLDER": """\
The folder that the setting `debug_dir` or `objects_dir` names can't be made or written. The program goes on without the
files; nothing else depends on them.""",
    "CACHE_IO": """\
The folder of the disk cache can't be made, read or written, or others could write to it. Objects are compiled anew in
each process.""",
    "TORCH_INTERFACE": """\
Tensors that a graph makes on this machine come from PyTorch's interface for compiled models
(`aoti_torch_empty_strided`), which is looked up when the first is made; what it makes first is compared with what was
asked for. Where it isn't there, makes something else, or can't make a tensor, `torch.empty_strided` makes it, which
takes a microsecond or two more. Results are the same. The log `perf` says what was wrong, and
`dynoc.counters["tensors"]` has how many tensors were made so.""",
    "GUARD_MISS": """\
No entry fits these arguments, so the call is recorded. The log `recompiles` says which guard failed.""",
    "FLAGS": """\
A kernel met a division by zero, an overflow or an invalid number for which NumPy would warn or raise. The call is
made again by CPython, whose warning has NumPy's own words and the right line. Each such call costs twice.

`with np.errstate(divide="ignore", invalid="ignore"):` around the function says that such values are meant.""",
    "LEFT": """\
A graph was left in its middle: a call in it gave something else than when it was recorded, or a condition that had
always held didn't. CPython went on from that very place; nothing was done twice.""",
}
