#pragma once
#include "api/e2b/e2b_internal.h"
#include "api/kit/token.h"
#include "engine/volume/opened.h"

/*
 * Volumes of E2B's clients. The id of a volume is its name. The control plane (volumes.c) takes keys; the files
 * (volume_content.c, volume_write.c) take the token of the volume, which names the tenant.
 */
#define ATOLL_E2B_VOLUME_TOKEN_MAX (64 + 1 + ATOLL_TOKEN_LEN)

/* volumes.c */
ATOLL_E2B_HANDLER(volume_list);
ATOLL_E2B_HANDLER(volume_create);
ATOLL_E2B_HANDLER(volume_get);
ATOLL_E2B_HANDLER(volume_remove);
/* volume_content.c */
ATOLL_E2B_HANDLER(volume_stat);
ATOLL_E2B_HANDLER(volume_dir);
ATOLL_E2B_HANDLER(volume_read);
ATOLL_E2B_HANDLER(volume_delete);
/* volume_write.c */
ATOLL_E2B_HANDLER(volume_update);
ATOLL_E2B_HANDLER(volume_mkdir);
ATOLL_E2B_HANDLER(volume_write);

/* out holds ATOLL_E2B_VOLUME_TOKEN_MAX + 1 bytes. */
void atoll_e2b_volume_token(const struct atoll_api *api, const char *tenant, const char *name,
                            char *out);

/* The protocol of requests for files. */
int atoll_e2b_volume_admit(struct atoll_api_call *call, struct atoll_error *err);
void atoll_e2b_volume_fail(struct atoll_api_call *call, int status,
                           const struct atoll_error *error);

/* A request for a file. */
struct atoll_e2b_volume_file {
    struct atoll_api_call *call;
    /* In the sandbox that serves the volume. */
    char path[4095 + sizeof(ATOLL_VOLUME_ROOT) + 1];
    /* Goes on when call->params.id is that sandbox. */
    void (*next)(struct atoll_e2b_volume_file *file);
};
/* The default user of the sandbox owns what is made, with root's rights. */
#define ATOLL_E2B_VOLUME_USER "+"

/* Takes ?path= and enters the volume. `file` is malloc'd, maybe as the first member of something larger, and
 * freed if the call was answered with an error. */
void atoll_e2b_volume_enter(struct atoll_api_call *call, struct atoll_e2b_volume_file *file,
                            void (*next)(struct atoll_e2b_volume_file *file));
/* Answers and frees. */
void atoll_e2b_volume_file_fail(struct atoll_e2b_volume_file *file,
                                const struct atoll_error *error);
void atoll_e2b_volume_file_reply(struct atoll_e2b_volume_file *file, int status,
                                 const struct atoll_am_entry *entry);
