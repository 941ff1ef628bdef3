/* machine.h: numbers that were measured on one machine: sizes of blocks, and thresholds from which on one way is faster than
 * another. They change the time of a result and not its bits, unless the sentence at one says that bits depend on it.
 *
 * Read by what generates code (c/), builds it (build/) and runs it (run/). Each section says which command measures what it
 * holds: change a number, build a release, and run the command on both builds in turn. Numbers that belong to the order of
 * reductions are in native.h. */
#ifndef DYN_MACHINE_H
#define DYN_MACHINE_H

/* ---- Threads. Costs are in tenths of a nanosecond, and high: an addition of doubles in the cache takes a quarter of its
 * estimate. `bench/suite.py --sizes --only polynomial`, with --threads 1 and with --threads 2, shows from which size on threads
 * pay. */

/* Work of a lower cost is done by the calling thread: on two busy Zen 4 cores a region costs 4 to 9 us. */
#define DYN_PARALLEL_COST 400000

/* Work of a lower cost keeps the GIL. */
#define DYN_RELEASE_COST 500000

/* The cost of one chunk of a parallel region. */
#define DYN_CHUNK_COST 200000

/* Results for each thread from which on threads have results of their own, and don't share one. */
#define DYN_RESULTS_EACH 4

/* Reduced elements of a parallel chunk: a power of two of blocks, so that the same pairs are made. */
#define DYN_REDUCE_CHUNK (64 * DYN_BLOCK)

/* ---- Lanes that don't lie side by side, which are gathered into scratch blocks.
 * `bench/suite.py --only transposed`, and `--only stencil`. */

/* Lanes of an operand that are gathered at a time. It is DYN_BLOCK, so that a block of a reduction fits. */
#define DYN_SCRATCH_LANES 512

/* Pieces of fewer elements are moved together, one element of each at a time. */
#define DYN_SHORT_PIECE 16

/* The same for pieces that lie side by side, which can be moved as such. */
#define DYN_TINY_PIECE 4

/* Rows of fewer lanes are walked several at a time, through scratch. */
#define DYN_SHORT_ROW 64

/* Bytes of records in a block, which stay in the first-level cache until each of their fields was read. */
#define DYN_RECORD_BYTES 16384

/* Bytes that a group's batch of rows touches: a part of the second-level cache. */
#define DYN_GROUP_BYTES 65536

/* The most rows of a group's batch. */
#define DYN_GROUP_ROWS 32

/* ---- Operands that lie across the order in which results are written, which are turned tile by tile.
 * `bench/suite.py --only transposed`; measured with 1000 x 1000 elements of 4 bytes on Cascade Lake. */

/* Rows of a band: four lines of each column at a time. */
#define DYN_TILE_ROWS 64

/* Bytes of the buffer for all turned operands: a long tile keeps the streams that are read directly long. */
#define DYN_TILE_BYTES (128 << 10)

/* The fewest columns of a tile. */
#define DYN_TILE_COLUMNS 16

/* How many columns ahead lines are asked for, as no processor foresees the next page. */
#define DYN_TILE_AHEAD 8

/* Bytes between columns below which walking them is no worse than turning them. */
#define DYN_TILE_APART 16

/* Elements of either axis below which nothing is turned. */
#define DYN_TILE_SIDE 16

/* ---- Reductions with a lane for each result.
 * `bench/suite.py --only columns`, and `--only variance`. */

/* Bytes of a strip's accumulators and of what is laid out for it, which stay in the first-level cache. */
#define DYN_STRIP_BYTES 24576

/* The most groups of results in a strip. */
#define DYN_STRIP_GROUPS 32

/* Rows that are reduced by one call where they are taken in turn. */
#define DYN_TURN_ROWS 16

/* Results that are made side by side where their elements are gathered. */
#define DYN_GATHERED_RESULTS 16

/* ---- Reductions of a few elements, and rows that are taken where they lie.
 * `bench/suite.py --only k-means`, and `--only distance`. */

/* Elements of a result, side by side, from which on form ROWS is faster than form SHORT_AXIS. */
#define DYN_ROWS_FROM 17

/* Groups of results in a piece, whose elements are laid out together. */
#define DYN_PIECE_GROUPS 16

/* The most bytes that are laid out once for all lines of results. */
#define DYN_SHARED_BYTES 65536

/* The most bytes that are laid out for one line, unless a single group takes more. */
#define DYN_OWN_BYTES 16384

/* ---- Running sums, and places of extremes (exec_scan.c).
 * `bench/suite.py --only cumulative`; an argmax of 1e6 elements, and along either axis of 1000 x 1000. */

/* Lines that go side by side; also the elements that a strided line gathers at a time. */
#define DYN_SCAN_COLUMNS 256

/* Neighbouring lines from which on they go side by side. */
#define DYN_SCAN_COLUMNS_FROM 4

/* Elements of one line for one thread, where the place of an extreme is looked for. */
#define DYN_SCAN_PIECE (64 * 1024)

/* Elements of a parallel chunk of lines, about. */
#define DYN_SCAN_CHUNK 16384

/* Lines up to this length have their best found side by side, wherever they lie. */
#define DYN_BEST_SHORT 16

/* Elements of which the best is found at a time; its place is looked for among them. */
#define DYN_BEST_STRETCH 512

/* Bytes that stretches grow to in longer lines. */
#define DYN_BEST_STRETCH_BYTES 4096

/* Elements that are looked at side by side for the place. */
#define DYN_BEST_LOOKED_AT 64

/* ---- Elements that are looked up, put in places, picked by a mask, or counted.
 * `bench/suite.py --only gather`, `--only scatter`, `--only histogram`; x[m] and x[m] = v of 1e6 elements, one in ten true. */

/* Elements of a row below which many are looked up at a time. */
#define DYN_GATHER_ROW 32

/* Elements of a row below which a block of places is done for one of them after the other. */
#define DYN_SCATTER_ROW 8

/* Elements below which no vector is looked for to move them. */
#define DYN_MOVE_LEAST 8

/* Elements apart up to which vectors take each field of records by itself. */
#define DYN_RECORD_NEAR 4

/* Elements of a mask's line that are one piece. */
#define DYN_MASK_PIECE 16384

/* Elements of a mask's line below which it is left to NumPy. */
#define DYN_MASK_LEAST 16

/* Elements from which on threads share the pieces. */
#define DYN_MASK_PARALLEL 262144

/* True places of a group of 64 up to which they are taken one by one. */
#define DYN_MASK_SPARSE 6

/* Elements of the parameters of an optimiser that are one piece of its step, and from which on threads share the pieces.
 * `bench/optimizers.py` measures them. */
#define DYN_DESCENT_PIECE 16384
#define DYN_DESCENT_PARALLEL 65536

/* Numbers counted, and places of a mask, from which on the GIL is released. */
#define DYN_RELEASE_ELEMENTS 50000

/* The most bins of which bincount has several tables, as the next number is often the last once more. */
#define DYN_COUNT_BINS (1 << 14)

/* The most bins of which each thread of a histogram has tables. */
#define DYN_HISTOGRAM_BINS (1 << 20)

/* The fewest elements of a histogram's parallel chunk. */
#define DYN_HISTOGRAM_CHUNK 65536

/* The most chunks of it: each takes tables. */
#define DYN_HISTOGRAM_CHUNKS 16

/* ---- Products. `bench/suite.py --only matmul`, `--only MLP`, and `bench/torch_table.py`. */

/* Terms that take a tenth of a nanosecond: a low estimate. */
#define DYN_BLAS_TERMS 5

/* Rows of a block that one thread makes by itself. */
#define DYN_BLAS_ROWS 96

/* Columns of a block that are worth a call. */
#define DYN_BLAS_COLUMNS_LEAST 32

/* The most of them, so that the left rows aren't fetched again and again from another cache. */
#define DYN_BLAS_COLUMNS_MOST 128

/* Bytes of the right matrix that each block reads: half a second-level cache. */
#define DYN_BLAS_RIGHT_BYTES (1 << 19)

/* Terms from which on MKL is up to twice as fast as OpenBLAS, and below which it is slower (Zen 4). Bits depend on it. */
#define DYN_TORCH_TERMS 100000

/* Terms below which PyTorch's library is faster than a chain of blocks by NumPy's (64 x 64 x 64: 32 and 44 us for three layers;
 * 64 x 256 x 256: 283 and 260). Bits depend on it. */
#define DYN_CHAIN_TERMS 1000000

/* Terms of a product of tensors above which NumPy's library would take threads of its own, beside those of PyTorch's. Bits
 * depend on it. */
#define DYN_TENSOR_TERMS 200000

/* Terms of a parallel chunk of products that have no BLAS. */
#define DYN_PRODUCT_CHUNK 200000

/* Rows of a long thin matrix in one piece. */
#define DYN_PRODUCT_ROWS 256

/* ---- What is fused, and what is made once more. Costs are those of ops.def, as dyn_op_cost counts them.
 * `bench/suite.py --only stencil`, `--only diffusion`, and `--only layer`. */

/* The most that computing a value once more for each further window may cost. */
#define DYN_AGAIN_COST 40

/* The cost of reading an element that doesn't lie beside the one before. */
#define DYN_APART_COST 8

/* The cost of looking an element up, where it is decided whether its reader does that itself. */
#define DYN_GATHER_COST 8

/* The cost of an operand that is looked up, in a kernel's estimate. */
#define DYN_INDIRECT_COST 10

/* Elements of a row of a reduction with several results below which a row isn't worth calls of its own. */
#define DYN_SHORT_REDUCED 16

/* ---- Pairs of reductions over more memory than a cache holds.
 * `bench/suite.py --only variance --sizes`. */

/* Bytes of a piece: half of a second-level cache. Bits depend on it. */
#define DYN_PAIR_PIECE_BYTES (512 << 10)

/* The fewest results of a strip. */
#define DYN_PAIR_STRIP 64

/* Below so many bytes the second reading is from a cache too, and nothing is cut. Bits depend on it. */
#define DYN_PAIR_LEAST_BYTES (4 << 20)

/* ---- Memory that is read and written in turn.
 * `bench/suite.py --only columns` shows what the distance saves. */

/* Bytes between buffers that would lie a page apart: a store looks like a later load a page away. */
#define DYN_BUFFERS_APART 192

/* ---- The built-in tier.
 * `bench/suite.py --only polynomial`, in a process without a compiler (dynoc.config.cc = '/nowhere'). */

/* Bytes of all blocks of a kernel, which stay in the first-level cache. */
#define DYN_BUILTIN_BYTES 32768

/* Groups from which on a reduction is done row by row, and below it group by group. */
#define DYN_BUILTIN_WIDE 8

/* ---- What is compiled when.
 * `bench/small_programs.py` times programs whose graphs are compiled as they run. */

/* Characters of text above which it is compiled in two parts: less takes 100 ms as it is. */
#define DYN_PARTS_ABOVE 10500

/* The fewest characters of the second part: another run of the compiler takes 25 ms. */
#define DYN_PARTS_LEAST 1500

/* Rows of one length after which it gets a function of its own: they take about as long as building that. */
#define DYN_LENGTH_OFTEN ((int64_t)1 << 22)

/* ---- Generated code.
 * `bench/suite.py --only mask`, and `--only Monte`. */

/* Elements after which a reduction of truths asks whether the rest can still change it. */
#define DYN_TRUTH_LOOKED_AT 32768

/* Bytes of elements from which on truths are added as they are, not counted in lanes of bytes. */
#define DYN_COUNT_WIDE 8

#endif
