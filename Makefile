# What there is to do here. tools/dev looks for interpreters and system packages, tools/dev.py does the work.
#
#   make demo    set everything up, build, install, and run the examples: plain time, dynoc time, speed-up, same result
#   make test    set everything up, build for every interpreter that is found (3.11 to 3.15), run all checks and tests
#   make quick   build one interpreter with verifiers on, and run the tests of the lower rooms and a slice of the others: a minute
#   make test-numpy, make test-scipy   NumPy's own tests, and SciPy's pure-Python parts, with and without dynoc: same outcomes
#   make test-thirdparty   tests of pandas, scikit-learn, astropy and others, plain and with dynoc: same outcomes and warnings
#   make test-torch-ops   PyTorch's own operator samples, eagerly and through dynoc: same results
#   make test-cpython   the language part of CPython's own tests, every function recorded: same outcomes, on every interpreter
#   make test-fresh  what somebody has who has nothing but the README: its two commands in a bare Debian root (root, debootstrap)
#   make wheels  sdist and manylinux wheels of this processor in build/wheels, each tried in a clean environment (root, debootstrap)
#   make bench   the figures, each beside its bound
#   make bench-suite   every kernel beside NumPy and the peers that are installed (PEERS_PYTHON=interpreter where they are)
#   make check   format, include directions, warnings with gcc and clang, tables
#   make site    the documents as a web site in build/site
#   make debug   build with verifiers on (build/<version>-debug/lib)
#   make asan, make ubsan   build with the sanitizer and run the tests under it
#   make tsan    threads that call, record, compile, evict and reset at once, under the thread sanitizer
#   make format  clang-format every C file in place
.PHONY: demo test quick test-numpy test-scipy test-thirdparty test-torch-ops test-cpython test-fresh wheels bench bench-suite check site debug asan ubsan tsan format clean
demo test quick test-numpy test-scipy test-thirdparty test-torch-ops test-cpython wheels bench bench-suite check site debug asan ubsan tsan format:
	@tools/dev $@
test-fresh:
	@tools/fresh
clean:
	rm -rf build .venv src/*.egg-info
