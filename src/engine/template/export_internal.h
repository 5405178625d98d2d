#pragma once
#include <stdatomic.h>
#include "engine/template/export.h"
#include "engine/template/images_internal.h"
#include "loop/steps.h"

/*
 * Shared by export.c, export_pack.c and export_write.c.
 */
struct atoll_export_layer {
    char name[72];
    int fd;                             /* owned: its archive */
    uint64_t before_bytes;              /* of the layers below, as they are packed; of a push */
    char diff_id[72];                   /* "sha256:…" */
    struct atoll_image_descriptor blob; /* of its archive */
};

struct atoll_export {
    struct atoll_images *images;
    struct atoll_list node; /* in images->exports */
    bool running;           /* counted in images->exporting */
    bool cancelled;
    char tenant[65];
    char *stack;        /* owned; held */
    char *config;       /* owned: the object `config` */
    bool on_host;       /* the stack is on the host template */
    bool built_in_user; /* sandboxes have it if the config has no User */
    int64_t created_unix_ms;
    struct atoll_image_reference ref; /* host "": an archive without a name */
    bool push, allow_private;
    struct atoll_image_login login;
    int cancel_fd;
    struct atoll_steps steps;
    struct atoll_timer start, report;
    void (*progress)(void *arg, const char *text); /* or NULL */
    char reported[120];
    _Atomic bool writing;                   /* the layers are packed */
    _Atomic uint64_t sent_bytes, all_bytes; /* of a push */
    /* Packing. */
    struct atoll_export_layer *layers; /* owned; bottom first */
    size_t count, at;
    char sandbox_id[ATOLL_ID_LEN + 1]; /* "" while no sandbox exists */
    struct atoll_reader *reader;
    struct atoll_buf line; /* of its stdout */
    char said[300];        /* the last of its stderr */
    /* Writing; a worker's while the job is under way. */
    struct atoll_job job;
    bool ran;
    int r;
    struct atoll_error error;
    char digest[ATOLL_IMAGE_DIGEST_MAX]; /* of the manifest */
    int archive;                         /* owned */
    atoll_export_fn *done;               /* NULL: it was dropped */
    void *arg;
};

/* Steps. */
void atoll_export_pack(void *export);
void atoll_export_write(void *export);
/* Ends the command that packs: the step then fails. */
void atoll_export_pack_end(struct atoll_export *e);
