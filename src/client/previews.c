#include <errno.h>
#include <stdio.h>
#include "client/link.h"

struct preview {
    struct atoll_client_preview public; /* first: what the caller has a pointer to */
    json_t *view;                       /* owned */
};

void atoll_client_preview_free(struct atoll_client_preview *public)
{
    struct preview *p = (struct preview *)public;

    if (p) {
        json_decref(p->view);
        free(p);
    }
}

static int preview_new(json_t *view, struct atoll_client_preview **ret_preview,
                       struct atoll_error *err)
{
    struct preview *p = calloc(1, sizeof(*p));

    if (!p)
        return atoll_fail_errno(err, ENOMEM, "preview");
    p->view = json_incref(view);
    p->public = (struct atoll_client_preview){
        .port = (unsigned)atoll_link_count(view, "port"),
        .is_public = json_is_true(json_object_get(view, "public")),
        .url = atoll_link_text(view, "url", ""),
        .path_url = atoll_link_text(view, "path_url", ""),
        .token = atoll_link_text(view, "token", ""),
    };
    *ret_preview = &p->public;
    return 0;
}

static int check_port(unsigned port, struct atoll_error *err)
{
    if (port >= 1 && port <= UINT16_MAX)
        return 0;
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "a port is a number from 1 to 65535");
}

static int open_preview(struct atoll_client *client, const char *sandbox_id, unsigned port,
                        bool is_public, struct atoll_client_preview **ret_preview,
                        struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *request =
        json_pack("{s:i, s:b}", "port", (int)port, "public", (int)is_public);
    ATOLL_AUTOJSON json_t *reply = NULL;
    struct atoll_link_target target;
    int r = atoll_link_check_id("sandbox", sandbox_id, err);

    if (r == 0)
        r = check_port(port, err);
    if (r == 0)
        r = atoll_link_target(&target, err, "/api/sandboxes/%s/previews", sandbox_id);
    if (r == 0)
        r = atoll_link_call(client, "POST", target.text, request, &reply, err);
    return r < 0 ? r : preview_new(reply, ret_preview, err);
}

int atoll_client_preview_open(struct atoll_client *client, const char *sandbox_id, unsigned port,
                              bool is_public, struct atoll_client_preview **ret_preview,
                              struct atoll_client_error *error)
{
    struct atoll_error err;
    int r = open_preview(client, sandbox_id, port, is_public, ret_preview, &err);
    return atoll_link_conclude(client, r, &err, error);
}

int atoll_client_preview_close(struct atoll_client *client, const char *sandbox_id, unsigned port,
                               struct atoll_client_error *error)
{
    struct atoll_link_target target;
    struct atoll_error err;
    char number[16];
    int r = atoll_link_check_id("sandbox", sandbox_id, &err);

    (void)snprintf(number, sizeof(number), "%u", port);
    if (r == 0)
        r = check_port(port, &err);
    if (r == 0)
        r = atoll_link_target(&target, &err, "/api/sandboxes/%s/previews/%s", sandbox_id, number);
    if (r == 0)
        r = atoll_link_call(client, "DELETE", target.text, NULL, NULL, &err);
    return atoll_link_conclude(client, r, &err, error);
}
