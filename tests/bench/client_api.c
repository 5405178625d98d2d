/*
 * See client_api.h.
 */
#include "client_api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char create_json[] = "{\"template\":\"host\"}";
static const char exec_json[] = "{\"cmd\":[\"/usr/bin/true\"]}";
static const char run_json[] = "{\"cmd\":[\"/usr/bin/true\"],\"template\":\"host\"}";

int atoll_client_create(struct atoll_http *h, char ret_id[ATOLL_CLIENT_ID_MAX],
                        struct atoll_error *err)
{
    int r = atoll_http_call(h, "POST", "/api/sandboxes", create_json, 201, err);
    if (r < 0)
        return r;
    const char *id = atoll_http_find(h->body, 1, "id");
    size_t len = id && *id == '"' ? strcspn(id + 1, "\"\\") : 0;
    if (len == 0 || len >= ATOLL_CLIENT_ID_MAX)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO, "create gave no id: %.200s", h->body);
    memcpy(ret_id, id + 1, len);
    ret_id[len] = '\0';
    return 0;
}

static int check_result(const struct atoll_http *h, struct atoll_error *err)
{
    const char *result = atoll_http_find(h->body, 1, "result");
    const char *kind = result ? atoll_http_find(result, 1, "kind") : NULL;
    const char *code = result ? atoll_http_find(result, 1, "exit_code") : NULL;
    if (!kind || !code || strncmp(kind, "\"exited\"", 8) != 0 || code[0] != '0' ||
        (code[1] != ',' && code[1] != '}' && code[1] != ' ' && code[1] != '\n'))
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EPROTO,
                          "/usr/bin/true did not exit with 0: %.200s", h->body);
    return 0;
}

int atoll_client_exec_true(struct atoll_http *h, const char *id, struct atoll_error *err)
{
    char path[ATOLL_CLIENT_ID_MAX + 64];
    (void)snprintf(path, sizeof(path), "/api/sandboxes/%s/execs?wait=true", id);
    int r = atoll_http_call(h, "POST", path, exec_json, 200, err);
    return r < 0 ? r : check_result(h, err);
}

int atoll_client_destroy(struct atoll_http *h, const char *id, struct atoll_error *err)
{
    char path[ATOLL_CLIENT_ID_MAX + 64];
    (void)snprintf(path, sizeof(path), "/api/sandboxes/%s", id);
    return atoll_http_call(h, "DELETE", path, NULL, 204, err);
}

int atoll_client_run_true(struct atoll_http *h, struct atoll_error *err)
{
    int r = atoll_http_call(h, "POST", "/api/run", run_json, 200, err);
    return r < 0 ? r : check_result(h, err);
}
