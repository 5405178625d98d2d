#pragma once
#include "api/call.h"
#include "api/kit/multipart.h"
#include "api/kit/unpack.h"

/*
 * Files in the body of a request: one file as the whole body (application/octet-stream), or parts of
 * a form (multipart/form-data), packed with gzip or not. Little is buffered: bytes go through gzip and
 * the form parser into the file. The client's socket is not read while a request to the sandbox is
 * pending or its disk is slow.
 *
 * Files are written in place, and small ones in one write (the engine gathers the bytes): a watch of
 * the directory reports a creation, a change of the owner and one write, which clients rely on.
 *
 * Ownership: the caller's storage, zeroed but for the first group of members; in use from
 * atoll_form_upload_start() until `ended` is called.
 */
enum atoll_form_upload_stage {
    ATOLL_FORM_BODY,  /* the body or begin(): INVALID_ARGUMENT, RESOURCE_EXHAUSTED */
    ATOLL_FORM_PATH,  /* opening or completing a file */
    ATOLL_FORM_WRITE, /* writing a file; errnum says why */
};

#define ATOLL_FORM_VALUE_MAX 4096
struct atoll_form_upload {
    struct atoll_api_call *call; /* its on_gone and state are used by the upload while it runs */
    const char *user;            /* as in the engine's functions for files */
    void *arg;
    /* A part begins, or the plain body, whose name and filename are NULL. 1: it is a file for
     * *ret_path, which is borrowed until control returns to the loop; 0: it is skipped; 2: it is a
     * text for value(); negative: *err is set. */
    int (*begin)(void *arg, const char *name, const char *filename, const char **ret_path,
                 struct atoll_error *err);
    /* A text of at most ATOLL_FORM_VALUE_MAX bytes is complete. NULL: there are no texts. */
    int (*value)(void *arg, const char *text, struct atoll_error *err);
    /* A file is complete. The callee calls atoll_form_upload_next(), at once or later. */
    void (*written)(void *arg, const struct atoll_am_entry *entry);
    /* Called once, with nothing pending. NULL: the whole body was written; CANCELED: the client
     * disconnected. The owner ends the call. */
    void (*ended)(void *arg, enum atoll_form_upload_stage stage, const struct atoll_error *error);

    bool is_form;
    uint64_t bytes; /* of the current file */

    bool body_ended, form_ended, begun;
    bool in_value; /* the current part is a text */
    struct atoll_buf text;
    bool waiting; /* for the sandbox, or for atoll_form_upload_next() */
    bool running; /* run() is on the stack, and calls `ended` */
    bool over;
    struct atoll_unpack body;
    struct atoll_multipart form;
    struct atoll_upload *file; /* owned: the current one */
    enum atoll_form_upload_stage stage;
    struct atoll_error error; /* for `ended` */
};

/* Reads the body. INVALID_ARGUMENT for an unknown type or encoding: nothing has begun then. */
int atoll_form_upload_start(struct atoll_form_upload *f, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Continues after `written`. An error ends the upload, as one of ATOLL_FORM_PATH. */
void atoll_form_upload_next(struct atoll_form_upload *f, const struct atoll_error *error);
