/*
 * /api/volumes/{name}/files…: the routes of /api/sandboxes/{id}/files, with the sandbox that serves the files
 * of the volume (engine/volume/opened.h) in place of {id}. Paths start at the top of the volume.
 */
#include "api/rest/rest_internal.h"
#include "base/text.h"
#include "engine/volume/opened.h"

struct entering {
    struct atoll_api_call *call;
    atoll_rest_handler *handler;
};

static void entered(void *arg, struct atoll_volume_use *use, const struct atoll_error *error)
{
    struct entering e = *(struct entering *)arg;

    free(arg);
    e.call->volume = use; /* left when the call ends */
    if (error) {
        atoll_api_fail(e.call, error);
    } else if (!e.call->req) {
        atoll_api_drop(e.call);
    } else {
        (void)!atoll_text_copy(e.call->params.id, sizeof(e.call->params.id),
                               atoll_volume_sandbox(use));
        e.handler(e.call, NULL, 0);
    }
}

static void enter(struct atoll_api_call *call, atoll_rest_handler *handler)
{
    struct entering *e = atoll_api_alloc(sizeof(*e));

    *e = (struct entering){call, handler};
    atoll_volume_enter(
        call->engine,
        &(struct atoll_volume_request){.tenant = call->caller.tenant,
                                       .name = call->params.name,
                                       .provider = atoll_http_query(call->req, "provider")},
        entered, e);
}

#define ROUTE(name, handler)                                                                     \
    void atoll_rest_volume_##name(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED, \
                                  size_t n ATOLL_UNUSED)                                         \
    {                                                                                            \
        enter(call, handler);                                                                    \
    }

ROUTE(download, atoll_rest_file_download)
ROUTE(upload, atoll_rest_file_upload)
ROUTE(file_remove, atoll_rest_file_remove)
ROUTE(stat, atoll_rest_file_stat)
ROUTE(files, atoll_rest_file_list)
ROUTE(mkdir, atoll_rest_file_mkdir)
ROUTE(move, atoll_rest_file_move)
ROUTE(chmod, atoll_rest_file_chmod)
ROUTE(chown, atoll_rest_file_chown)
ROUTE(symlink, atoll_rest_file_symlink)
