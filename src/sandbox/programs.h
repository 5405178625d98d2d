#pragma once

/*
 * Where programs of ours are in a sandbox: the one that unpacks archives (unpack/unpack.h) only in those of
 * the host template, whose libraries it needs; those that copy (copy/copy.h) and compare (diff/diff.h) in all
 * of them. They are parts of read-only layers (sandbox/host_template.h), so no layer that is made in a sandbox has them.
 */
#define ATOLL_PROGRAMS_INSIDE "/usr/share/atoll"
#define ATOLL_UNPACK_PROGRAM ATOLL_PROGRAMS_INSIDE "/atoll-unpack"
#define ATOLL_COPY_PROGRAM ATOLL_PROGRAMS_INSIDE "/atoll-copy"
#define ATOLL_DIFF_PROGRAM ATOLL_PROGRAMS_INSIDE "/atoll-diff"
