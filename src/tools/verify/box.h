#pragma once
#include "tools/verify/verify.h"

/*
 * One sandbox, used through the API. All functions block, like those of client/link.h.
 */
struct atoll_box {
    struct atoll_client *client; /* borrowed */
    char id[64];                 /* "" if there is no sandbox */
    json_t *view;                /* owned: the daemon's answer to the create request */
};

/* Zero: the provider's default. Limits that this host cannot enforce are waived: atoll_box_waives(). */
struct atoll_box_options {
    const char *provider;
    unsigned memory_mib, disk_mib, inodes, pids;
    double cpus;
    const char *network;                /* networkMode; NULL: "none" */
    const char *template_name, *secret; /* secret: the value of a variable of its environment */
};

int atoll_box_create(struct atoll_box *box, struct atoll_client *client,
                     const struct atoll_box_options *options,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Returns when the sandbox is completely removed. */
int atoll_box_destroy(struct atoll_box *box, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same, ignoring errors; also frees the view. */
void atoll_box_done(struct atoll_box *box);

/* Evidence for results during which the sandbox was removed. */
#define ATOLL_BOX_REMOVED \
    "could not be verified: a sandbox of this verification was removed by another client"
/* Whether the sandbox was removed, or is being removed, by another client. Also true once if any other
 * sandbox of ours was found to be missing since the last call. box may be NULL. */
bool atoll_box_was_removed(const struct atoll_box *box);

/* "memory", "cpu", "pids", "disk". */
bool atoll_box_waives(const struct atoll_box *box, const char *limit);
/* A limit as reported by the daemon: "memoryMB", "diskMB" (in MiB), "pids". */
double atoll_box_limit(const struct atoll_box *box, const char *name);

/* Copies a program of the host to `path` in the sandbox. */
int atoll_box_put(const struct atoll_box *box, const char *host_path, const char *path,
                  struct atoll_error *err) ATOLL_MUST_CHECK;

/* Runs a command as `user` (NULL: the default) until it ends. args: further arguments, or NULL. *ret is
 * {"stdout", "result": {"kind", …}}, owned by the caller. */
int atoll_box_exec(const struct atoll_box *box, const char *user, const char *const *argv,
                   const json_t *args, double timeout_s, json_t **ret,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Starts a command and leaves it running. */
int atoll_box_detach(const struct atoll_box *box, const char *user, const char *const *argv,
                     const json_t *args, struct atoll_error *err) ATOLL_MUST_CHECK;
