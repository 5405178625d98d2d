#pragma once
#include "cli/client.h"

/*
 * Copies of files and directories between this machine and a sandbox or a volume.
 *
 * Everything that comes out of a sandbox is hostile: names, types, links. A download therefore
 * works with descriptors only, never follows a link, writes to temporary names and renames them, and
 * skips entries that could lead outside the destination. Skipped entries are reported and counted.
 */
struct atoll_cli_copy {
    struct atoll_cli *cli;
    const char *sandbox; /* id, or the name of a volume */
    bool is_volume;
    const char *user; /* user inside the sandbox whose permissions apply; NULL: the default user */
    uint64_t files, directories, links, bytes;
    json_t *skipped; /* owned: [{"path","reason"}] */
};

void atoll_cli_copy_init(struct atoll_cli_copy *copy, struct atoll_cli *cli, const char *sandbox,
                         const char *user);
void atoll_cli_copy_done(struct atoll_cli_copy *copy);

/* SANDBOX:PATH or volume:NAME/PATH. A local name with a colon is written ./like:this. */
struct atoll_cli_side {
    bool remote, is_volume;
    char sandbox[ATOLL_LINK_ID_MAX];
    const char *path; /* borrowed */
};
struct atoll_cli_side atoll_cli_side_parse(const char *text);

/* `remote` as the user wrote it: a directory that exists, or a trailing slash, means "into it".
 * `local` "-" is standard input or output. NOT_FOUND, PERMISSION_DENIED and so on. */
int atoll_cli_copy_upload(struct atoll_cli_copy *copy, const char *local, const char *remote,
                          struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_cli_copy_download(struct atoll_cli_copy *copy, const char *remote, const char *local,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* Shared by the two directions. */

#define ATOLL_CLI_COPY_DEPTH_MAX 128
#define ATOLL_CLI_COPY_PATH_MAX 4096

/* A request about one path: METHOD /api/sandboxes/ID/files<what>?path=PATH<&query>, or /api/volumes/NAME. */
int atoll_cli_copy_call(struct atoll_cli_copy *copy, const char *method, const char *what,
                        const char *path, const char *query, json_t **ret_reply,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
int atoll_cli_copy_target(const struct atoll_cli_copy *copy, const char *what, const char *path,
                          const char *query, struct atoll_link_target *ret,
                          struct atoll_error *err) ATOLL_MUST_CHECK;

void atoll_cli_copy_skip(struct atoll_cli_copy *copy, const char *path, const char *fmt, ...)
    ATOLL_PRINTF(3, 4);
/* Whether the error concerns one entry only, so that the copy continues with the next one. */
bool atoll_cli_copy_goes_on(const struct atoll_error *err);

/* The last component of a path, or NULL when that is "", "." or "..". Borrowed. */
const char *atoll_cli_copy_basename(const char *path, char *out, size_t cap);
/* Whether the name is a single path component, not "." or "..". */
bool atoll_cli_copy_is_name(const char *name);
/* Whether a link cannot lead out of the tree: its target is relative, all ".." come first, and there
 * are at most `depth` of them (the number of real directories above the link within the tree). */
bool atoll_cli_copy_is_inner_link(const char *target, size_t depth);
