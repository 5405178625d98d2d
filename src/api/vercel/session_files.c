/*
 * Files of a session.
 */
#include "api/vercel/session_internal.h"

struct request {
    const char *path, *cwd;
};
#define AT(member) offsetof(struct request, member)
static const struct atoll_field fields[] = {
    {"path", ATOLL_FIELD_STRING, AT(path), 1, 4096, NULL, 0},
    {"cwd", ATOLL_FIELD_STRING, AT(cwd), 0, 4096, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};

static void made(void *arg, const struct atoll_am_entry *entry ATOLL_UNUSED,
                 const struct atoll_error *error)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    if (!atoll_api_reply_begin(arg, error, &buf, &out))
        return;
    atoll_json_open(&out, NULL, '{');
    atoll_json_close(&out, '}');
    atoll_api_reply(arg, 200, &out);
}

void atoll_vercel_fs_mkdir(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    struct request q = {0};
    struct atoll_error error;
    struct atoll_body body;

    if (atoll_body_decode(&body, bytes, n, fields, &q, &error) < 0)
        atoll_api_fail(call, &error);
    else if (!q.path)
        atoll_vercel_refuse(call, 400, NULL, "`path` is missing");
    else
        atoll_files_mkdir(call->engine, call->params.id, NULL, q.path, made, call);
    atoll_body_done(&body);
}
