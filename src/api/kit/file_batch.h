#pragma once
#include "api/fields.h"
#include "engine/engine.h"

/*
 * Files in the JSON of a request, an array of {"path","mode"?,"data"|"data_base64"}, written one
 * after the other. Each file is written completely or not at all. Ownership: the caller's storage;
 * the body must live until `done` has been called.
 */
#define ATOLL_FILE_BATCH_MAX 256

struct atoll_file_batch {
    struct atoll_engine *engine;
    struct atoll_body *body; /* borrowed */
    const json_t *files;     /* of the body; NULL: none */
    char sandbox_id[33];
    const char *user;      /* borrowed; NULL: the default user */
    size_t next;           /* index of the next file */
    struct atoll_buf data; /* of the current file */
    /* May be NULL. */
    void (*each)(void *arg, const struct atoll_am_entry *entry);
    /* Called once. An error names the file; the files before it have been written. */
    void (*done)(void *arg, const struct atoll_error *error);
    void *arg;
};

/* Validates all files before any is written. INVALID_ARGUMENT. */
int atoll_file_batch_check(struct atoll_body *body, const json_t *files,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Writes the files; engine, body, files, sandbox_id, user and the callbacks must be set. */
void atoll_file_batch_write(struct atoll_file_batch *batch);
