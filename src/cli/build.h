#pragma once
#include "base/buf.h"
#include "cli/request.h"

/*
 * A build by the daemon itself: options of `atoll build`, or what e2b.toml says.
 */
struct atoll_cli_build {
    const char *tag, *file, *target, *network, *start, *ready;
    struct atoll_cli_list args, secrets;
    uint64_t memory_bytes;                    /* of each step */
    uint64_t sandbox_cpus, sandbox_memory_mb; /* of the template's sandboxes; 0: not given */
    double timeout_seconds;
    bool no_cache, debug, quiet;
};

/* Sends the files of the directory, builds, shows the log and prints the result. */
int atoll_cli_build_dir(struct atoll_cli *cli, const struct atoll_cli_build *build, char *dir,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
/* Appends the content of a file; "-": standard input. */
int atoll_cli_build_read(const char *path, struct atoll_buf *out,
                         struct atoll_error *err) ATOLL_MUST_CHECK;
/* Builds what the e2b.toml of the directory says, as E2B's command line does. */
int atoll_cli_build_e2b(struct atoll_cli *cli, const char *network, char *dir,
                        struct atoll_error *err) ATOLL_MUST_CHECK;
