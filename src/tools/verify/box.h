#pragma once
#include "tools/verify/verify.h"

/*
 * One sandbox over the API. All functions block, as client/link.h does.
 */
struct atoll_box {
    struct atoll_client *client; /* borrowed */
    char id[64];                 /* "" when there is none */
    json_t *view;                /* owned: what the daemon said when it was made */
};

/* Zero: the provider's default. What this host cannot enforce is waived; atoll_box_waives() tells. */
struct atoll_box_options {
    const char *provider;
    unsigned memory_mib, disk_mib, inodes, pids;
    double cpus;
};

int atoll_box_create(struct atoll_box *box, struct atoll_client *client,
                     const struct atoll_box_options *options,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Done when nothing of it is left. */
int atoll_box_destroy(struct atoll_box *box, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The same, whatever comes of it; also releases the view. */
void atoll_box_done(struct atoll_box *box);

/* What a result comes to that was made while it was removed. */
#define ATOLL_BOX_REMOVED \
    "could not be verified: a sandbox of this verification was removed by somebody else"
/* Whether it is gone, or going, though it was not destroyed here. Also once for each that was found to be
 * gone since the last call, whichever it was; box may be NULL. */
bool atoll_box_was_removed(const struct atoll_box *box);

/* "memory", "cpu", "pids", "disk". */
bool atoll_box_waives(const struct atoll_box *box, const char *limit);
/* A limit as the daemon says it, in MiB where its name ends so: "memoryMB", "diskMB", "pids". */
double atoll_box_limit(const struct atoll_box *box, const char *name);

/* Copies a program of the host to PATH inside. */
int atoll_box_put(const struct atoll_box *box, const char *host_path, const char *path,
                  struct atoll_error *err) ATOLL_MUST_CHECK;

/* Runs a command to its end as `user` (NULL: the default). args are its arguments, or NULL; *ret is
 * {"stdout", "result": {"kind", …}} and the caller's. */
int atoll_box_exec(const struct atoll_box *box, const char *user, const char *const *argv,
                   const json_t *args, double timeout_s, json_t **ret,
                   struct atoll_error *err) ATOLL_MUST_CHECK;
/* Starts one and leaves it running. */
int atoll_box_detach(const struct atoll_box *box, const char *user, const char *const *argv,
                     const json_t *args, struct atoll_error *err) ATOLL_MUST_CHECK;
