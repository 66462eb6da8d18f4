"""Every threshold of derived data, with its reason.

Tests set them by name, so they are always read as `policy.NAME`. How old a version has to be before
files are written about it is in `storage.cache_files`, because the cache of the manifest, too, asks
for it. The size of it all is the setting `cache_mib`.
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
#: A column is put in order once single values were asked for this often: sorting takes as long as
#: looking at all values some ten times.
SOUGHT_OFTEN = 8
#: A column is used as numbers of its values when each value is there this many times: else the
#: numbers are not much smaller than the values.
REPEATED = 8

#: Columns are read in pieces of about so many bytes, if a text or a list has so many: no more than
#: the columns and a few pieces are in memory.
READ_AT_ONCE = 8 << 20
TEXT_BYTES = 64

# --- topology ---

#: A topology of so many edges is written to a file at once, because building it takes longer than
#: writing. Smaller ones are written when the version of the edges has been there for a moment.
LARGE_TOPOLOGY_EDGES = 20_000
#: A topology is made from the one before when at most this many edges, and this part of all, have
#: changed; a handful in any case. Beyond that, building it from the ids is as fast.
MOST_CHANGES = 4096
FEWEST_CHANGES = 16
CHANGED_PART = 8
#: As many neighbours are laid over others before all are put in their places: half a millisecond.
MOST_LAID_OVER = 1 << 16
#: How many neighbours are summed up at once: their weights stay in the processor's cache.
SUMMED_AT_ONCE = 1 << 18

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
