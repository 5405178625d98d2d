#pragma once
#include "base/error.h"

/*
 * atoll-unpack: from an archive to the tree of a layer and back. It runs in a builder sandbox of the host
 * template, as root inside, because archives are hostile; the daemon reads only its lines.
 *
 *   atoll-unpack [OPTION…] DIR              unpacks the archive on stdin into DIR, which exists
 *     --plain            names such as .wh.X have no meaning: contexts of builds, archives of ADD
 *     --manifest FILE    writes a line for each entry of the result (base/tree_line.h), sorted by path
 *     --max-bytes N      of all files together, apparent size (default 32 GiB)
 *     --max-files N      entries (default 4000000)
 *     --max-path N       bytes of a name (default 4096)
 *     --max-ratio N      uncompressed bytes for each byte of input, beyond the first 16 MiB (default: any)
 *   atoll-unpack pack [OPTION…] DIR         writes the archive of the layer DIR to stdout
 *     --compress none|gzip|zstd             (default none)
 *     --level N                             of the compression
 *     --output FILE      instead of stdout; then the last line is on stdout, else on stderr
 *     --plain            an ordinary tree: device nodes 0:0 and user.overlay.opaque have no meaning
 *   atoll-unpack sbom [OPTION…] DIR…        prints CycloneDX 1.5 JSON: packages of the layers DIR…, which
 *                                           are a stack, bottom first
 *     --name NAME        of the image or template
 *     --output FILE      instead of stdout
 *   atoll-unpack settle OUT DIR…            makes a layer in the directory OUT, to be put on the stack
 *                                           of the layers DIR…, bottom first: see unpack/settle.h
 *   atoll-unpack squash [OPTION…] OUT DIR…  makes one layer of the layers DIR…, bottom first, in the
 *                                           directory OUT: see unpack/squash.h
 *     --max-bytes N, --max-files N          as above
 *
 * Archives are tar (ustar, pax, GNU), as they are or by gzip (also several members), zstd, xz, bzip2. In a
 * layer .wh.X becomes a character device 0:0 named X, and .wh..wh..opq the attribute
 * user.overlay.opaque=y of its directory: what an overlay with `userxattr` expects. Modes with set-id bits,
 * numeric owners, times with nanoseconds, hard links, FIFOs, sparse files, attributes user.* (but not
 * user.overlay.*), security.capability and POSIX ACLs are kept. A leading "/" is dropped. Refused: names with "..", names
 * whose parent is a link to nothing, hard links to what the archive has not. Links in the path of a name
 * are followed inside DIR only. Left out, with a note: device nodes, other attributes, attributes that the
 * kernel refuses. Owners above 65535 become 65534, with a note.
 *
 * Output of unpack: lines of JSON on stdout. Notes first, at most 64, as they occur:
 *   {"note":"device","path":"dev/sda","text":"device nodes are left out"}
 *     note: device | attribute | owner | type
 * then, if all went well, one last line:
 *   {"diffId":"sha256:HEX","digest":"sha256:HEX","inputBytes":N,"tarBytes":N,"bytes":N,"files":N,
 *    "skipped":N,"notes":N,"implied":N}
 *     diffId: of the whole uncompressed stream; digest, inputBytes: of the input as it came, read to its
 *     end; bytes: of all files; files: entries of the tree, whiteouts too; skipped: entries left out;
 *     notes: also those that were not printed; implied: directories with the mark ATOLL_TREE_IMPLIED
 * or else {"error":"TEXT","kind":"KIND"} with a kind of base/error.h (invalid_argument: the archive;
 * resource_exhausted: a limit, or no room on the disk; internal). TEXT is for the client.
 * Last line of settle: {"bytes":0,"files":N}
 *     files: directories of OUT
 * Last line of squash: {"bytes":N,"files":N}
 *     as of unpack
 * Last line of pack: {"digest":"sha256:HEX","bytes":N,"diffId":"sha256:HEX","tarBytes":N,"files":N}
 *     digest, bytes: of what was written; diffId, tarBytes: before compression
 * The same tree always gives the same bytes of tar (entries sorted, pax only where needed, no access times).
 *
 * Exit status: 0 success, 1 bad archive, 2 wrong usage, 3 a limit or a full disk, 4 anything else. After an error
 * stdin is not read further.
 *
 * Where it is in the sandbox: ATOLL_UNPACK_PROGRAM (sandbox/programs.h).
 */

struct atoll_unpack_options {
    bool plain;
    const char *manifest; /* path of a file to write; or NULL */
    uint64_t max_bytes, max_files, max_path;
    uint64_t max_ratio; /* 0: any */
};
#define ATOLL_UNPACK_MAX_BYTES (UINT64_C(32) << 30)
#define ATOLL_UNPACK_MAX_FILES UINT64_C(4000000)
#define ATOLL_UNPACK_MAX_PATH UINT64_C(4096)

struct atoll_unpack_result {
    char diff_id[65], digest[65];
    uint64_t input_bytes, tar_bytes;
    uint64_t bytes, files, skipped;
    uint64_t notes, implied;
};

/* Unpacks the archive of `in` into the directory `dir`; notes are printed on notes_fd (-1: not). Blocking. Errors
 * as above. */
int atoll_unpack(int in, int dir, int notes_fd, const struct atoll_unpack_options *options,
                 struct atoll_unpack_result *ret, struct atoll_error *err) ATOLL_MUST_CHECK;

enum atoll_pack_compression { ATOLL_PACK_NONE, ATOLL_PACK_GZIP, ATOLL_PACK_ZSTD };

struct atoll_pack_options {
    bool plain;
    enum atoll_pack_compression compression;
    int level; /* 0: the default of the compression */
};

struct atoll_pack_result {
    char digest[65], diff_id[65];
    uint64_t bytes, tar_bytes, files;
};

/* Writes the archive of the tree `dir` to `out`. Blocking. INVALID_ARGUMENT: a layer cannot express a name;
 * RESOURCE_EXHAUSTED, INTERNAL. */
int atoll_pack(int dir, int out, const struct atoll_pack_options *options,
               struct atoll_pack_result *ret, struct atoll_error *err) ATOLL_MUST_CHECK;
