#pragma once
#include "api/fields.h"
#include "engine/engine.h"

/*
 * Files that came in the JSON of a request, an array of {"path","mode"?,"data"|"data_base64"},
 * written one after the other; each is there whole or not at all.
 * Ownership: the caller's storage; the body they are in must live until `done` has been called.
 */
#define ATOLL_FILE_BATCH_MAX 256

struct atoll_file_batch {
    struct atoll_engine *engine;
    struct atoll_body *body; /* borrowed */
    const json_t *files;     /* of the body; NULL for none */
    char sandbox_id[33];
    const char *user;      /* borrowed; NULL: the default one */
    size_t next;           /* the file to write next */
    struct atoll_buf data; /* of the one being written */
    /* May be NULL. */
    void (*each)(void *arg, const struct atoll_am_entry *entry);
    /* Called once; an error names the file, and those before it are there. */
    void (*done)(void *arg, const struct atoll_error *error);
    void *arg;
};

/* Looks at all of them before any is written. INVALID_ARGUMENT. */
int atoll_file_batch_check(struct atoll_body *body, const json_t *files,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes them; engine, body, files, sandbox_id, user and the callbacks are set. */
void atoll_file_batch_write(struct atoll_file_batch *batch);
