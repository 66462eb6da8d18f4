"""Every threshold of queries and of the data derived for them, with its reason.

Tests set them by name, so they are always read as `policy.NAME`. How old a version has to be before
files are written about it is in `storage.cache_files`, because the cache of the manifest, too, asks
for it. The size of it all is the setting `cache_mib`; `storage.cache_budget` divides it.
"""

from __future__ import annotations

# --- reading rows or columns ---

#: Rows are read one by one when they are fewer than this part of all: a row costs Lance about as
#: much as 200 values of a column that is read from start to end.
ROWS_PER_ROW_READ = 200
#: Tables of up to this many rows are always read as columns: that takes a millisecond or two.
SMALL_TABLE_ROWS = 20_000
#: Tables of up to this many rows are read as columns when a few rows were asked for this often, if
#: a column has at most so many bytes: a second of work at most, which then pays off soon.
LARGE_TABLE_ROWS = 1_000_000
OFTEN = 4
LARGE_COLUMN_BYTES = 64 << 20
#: Values that are longer than so on average are read when they are needed, a few at a time, if all
#: of them would take more bytes than that: reading one by itself takes no longer than reading all.
LONG_VALUE_BYTES = 4 << 10
LONG_COLUMN_BYTES = 256 << 20
#: Texts that are computed with at once, in bytes; and how many when it is not known how long they
#: are.
TEXT_BYTES_AT_ONCE = 64 << 20
TEXTS_AT_ONCE = 1 << 8
#: The bytes of texts that a column with offsets of 32 bits holds. Tests set less.
LARGEST_TEXT_COLUMN = (1 << 31) - 1
#: When an index finds less than such a part of the rows, asking it again is faster than looking at
#: all values of a column in memory: it takes a few milliseconds, and nothing has to be read before.
#: Equal values are looked up in memory in less, once the column is in order.
SELECTIVE_PART = 50
#: A column is put in order once single values were asked for this often: sorting takes as long as
#: looking at all values some ten times.
SOUGHT_OFTEN = 8
#: A column is used as numbers of its values when each value is there this many times: else the
#: numbers are not much smaller than the values.
REPEATED = 8

# --- topology ---

#: A topology of so many edges is written to a file at once, because building it takes longer than
#: writing. Smaller ones are written when the version of the edges has been there for a moment.
LARGE_TOPOLOGY_EDGES = 20_000
#: A topology is made from the one before when at most this many edges, and this part of all, have
#: changed; a handful in any case. Beyond that, building it from the ids is as fast.
MOST_CHANGES = 4096
FEWEST_CHANGES = 16
CHANGED_PART = 8
#: Edges that came, with none that went, are added to a topology up to this part of what it has:
#: then most ends need not be resolved again.
ADDED_PART = 2
#: So many edges are sorted from both ends at once: fewer are sorted before a thread has started.
EDGES_SORTED_APART = 1 << 15
#: The ends of about so many edges are resolved at once, each time with a table of all ids of the
#: nodes: fewer would make more of these tables, and more take more memory for the texts.
ENDS_RESOLVED_AT_ONCE = 2 << 20
#: As many neighbours are laid over others before all are put in their places: half a millisecond.
MOST_LAID_OVER = 1 << 16
#: How many neighbours are summed up at once: their weights stay in the processor's cache.
SUMMED_AT_ONCE = 1 << 18

# --- loads ---

#: After a load, the topology of an edge type is made when at least so many of its edges are new,
#: and this part of all; and whatever the number if there was one before, which is in use then.
LOADED_EDGES = 20_000
LOADED_PART = 8
#: What an edge and a node take in a topology, about, of both directions.
EDGE_BYTES = 16
NODE_BYTES = 8

# --- memory ---

#: Of a table, so many versions are held: a graph that is written all day has thousands, and who
#: reads an old one usually reads it once.
VERSIONS_IN_MEMORY = 4
#: How many keys of versions are known without looking at their files: some hundred bytes each.
KEYS_IN_MEMORY = 4096
#: What an open version of a table takes in Lance and here: measured 4 KiB, and with many fragments
#: five times the size of the version's file.
OPEN_TABLE_BYTES = 16 << 10
OPEN_TABLE_PART = 6

# --- files ---

#: The files of so many versions of a table stay: that of before is the base of a patch, and is read
#: by those who still look at it.
VERSIONS_ON_DISK = 2
#: So long after a query its files are begun, so that the answer does not wait for the processor.
SECONDS_BEFORE_WRITING = 0.05
#: How many bytes of columns are written after one query: a process that ends waits for them. The
#: rest is left for the next query.
WRITTEN_AT_ONCE = 16 << 20
#: A file that is used is marked as used when it was not for so many seconds. What was used longest
#: ago goes first when the disk's budget is used up; marking every use would write all the time.
MARKED_USED_AFTER = 60.0
#: What a file takes beside its arrays: its header, and what a disk rounds up to.
FILE_BYTES = 4 << 10
#: Files of other processes are counted again after so many seconds: that lists all files.
DISK_COUNTED_AGAIN_AFTER = 1.0

# --- planning ---

#: How many plans are ready to be run again: some kilobytes each.
PLANS_IN_MEMORY = 512
#: A variable of which a smaller part of the nodes passes its filters is started from, instead of
#: being counted: what hangs at few nodes is found faster than what hangs at all.
FEW_NODES = 0.05
#: What part of the rows is thought to pass a filter, by its operator; of another comparison, of a
#: test for null and for a value, and of any other condition. Guesses: they decide only how fast a
#: plan is.
PASSING = {"=": 0.02, "in": 0.06, "starts_with": 0.05, "contains": 0.1}
PASSING_COMPARISON = 0.35
PASSING_NULL = 0.1
PASSING_VALUE = 0.9
PASSING_CONDITION = 0.4

# --- matching ---

#: A scan makes so many times the rows at once that other steps do: it has only one column.
SCAN_BLOCKS = 4
#: So many pairs of a start and a visited node do walks hold at once, in blocks: about as much as a
#: block of four variables.
WALK_BLOCKS = 4
#: Walks start from a block of matches divided by this: each may visit about as many nodes before
#: the walks have to be divided.
ROWS_PER_WALK = 256
#: What hangs at fewer edges than this part of all is counted there alone; else it is counted for
#: all nodes once, which is faster by edge.
COUNTED_PART = 8

# --- grouping and ordering ---

#: Groups have a place each in an array when there can be at most this many: it fits into the
#: processor's cache.
DENSE_GROUPS = 1 << 16
#: The values of a column are numbered as a whole when a block has at least this part of its rows:
#: else more is numbered than is used.
NUMBERED_PART = 4
#: The first rows of an order are chosen among at least this many times as many, so that sorting
#: drops most of what it sorts.
FEW_OF_SORTED = 4
#: Used positions are marked in an array of all, instead of being sorted, when that is at most so
#: many times as large.
SPARSE_POSITIONS = 8
#: Texts too long for memory are ordered by at least so many bytes of how they begin.
LEAST_PREFIX = 64
#: A sorted run is read in parts of at least so many rows: smaller ones cost more calls than rows.
LEAST_RUN_PART = 1 << 10
#: Runs stay in memory up to this part of what is left; the rest is for sorting and merging.
RUNS_IN_MEMORY_PART = 2

# --- returning ---

#: Whether the answer is going to fit is asked when there are more rows than this: the size of a
#: smaller one is seen soon enough when it is returned.
MANY_ANSWER_ROWS = 1 << 14
#: How large the first chunk of an answer should be when it is known how long texts are, in bytes;
#: they may differ. How many rows it has when it is not known, and of how many that is not asked.
FIRST_CHUNK_BYTES = 4 << 20
FIRST_CHUNK_ROWS = 1 << 10
UNMEASURED_ROWS = 16
#: How large a chunk should be at most, in bytes, and which part of the budget.
CHUNK_BYTES = 16 << 20
CHUNK_PART = 32
#: A chunk has at most so many times the rows of the one before, because texts may get longer, and
#: one that is too large is tried again with such a part of its rows.
CHUNK_GROWTH = 4
CHUNK_SHRINK = 16

# --- indexes of vectors ---

#: Fewer vectors are compared one by one: with 128 numbers each that takes about 2 ms, as long as
#: asking an index, and finds exactly the nearest.
VECTORS_WITHOUT_INDEX = 20_000
#: Up to so many, an index has the vectors themselves; beyond, a byte for each number. Measured with
#: 200,000 clustered vectors of 128 numbers: it is built in a seventh of the time of a product
#: quantization that finds as many of the ten nearest, and a thirteenth of that of a graph of
#: neighbours.
VECTORS_IN_FULL = 50_000
#: Vectors that no index covers are compared one by one; from so many on, an index is extended.
UNINDEXED_VECTORS = 10_000
#: An index is asked for so many times the rows that are needed, and their vectors decide: what has
#: a byte for each number, or less, is no longer sure of the order. Measured: recall@10 of a byte
#: each is 0.966 by itself and 1.0 with five times as many; with product quantization it is 0.54,
#: and 0.998 with ten times as many.
REFINED = {"ivf_flat": 2, "ivf_hnsw_flat": 2, "ivf_sq": 5, "ivf_hnsw_sq": 5}
REFINED_MOST = 20
#: The partitions of an index that are looked into: 10 find 99.6 % of the ten nearest of 447
#: partitions, 20 find all; it may be this part of all of them when there are more.
PROBES = 20
PROBED_PART = 32
#: And so many times the partitions that the candidates would fill.
PROBED_MORE = 4
#: When candidates do not suffice, so many times as many are asked for.
MORE_CANDIDATES = 4
#: Reading a vector from the table takes as long as comparing so many that are in memory, and so
#: does each candidate of an index.
COMPARED_PER_READ = 10
COMPARED_PER_CANDIDATE = 10

# --- searching ---

#: Columns whose postings would have more bytes are searched without them, and columns of more bytes
#: of vectors are read for each query: a quarter of the default of `cache_mib`, and about 30 million
#: words.
POSTINGS_BYTES = 256 << 20
VECTOR_BYTES = 256 << 20
#: What a different token takes beside its rows, about: its text, and its place in a dictionary.
TOKEN_BYTES = 160
#: How many counts of terms in rows are computed at once: 32 MiB.
COUNTED_AT_ONCE = 1 << 22
#: How many bytes of texts are split at once: this bounds the memory that splitting takes.
SPLIT_BYTES = 1 << 24
#: How many numbers of vectors are compared at once: they stay in the processor's cache.
COMPARED_AT_ONCE = 1 << 16
#: Rows are read by themselves when they are fewer than this part of all: texts are long, so that
#: reading all of them for a few costs more than with other columns.
READ_ALONE_PART = 8
#: Columns of tables of up to this many rows stay in memory, and so many rows are read at once.
SMALL_SEARCHED_ROWS = 20_000
#: Splitting a text takes as long as computing with so many numbers.
NUMBERS_PER_TEXT = 64
#: How many rows an index finds in the time in which one text is read and split.
HITS_PER_TEXT = 8
#: The ids of a table are put in order once and for all when this part of them is needed.
RANKED_PART = 8
#: A set of numbers is a table of flags when that has at most this many places for each of them:
#: else making the table takes longer than looking for the numbers.
DENSE_SET = 8
