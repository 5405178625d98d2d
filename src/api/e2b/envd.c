#include "api/e2b/envd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/e2b/plane.h"
#include "api/errors.h"
#include "base/base64.h"
#include "base/text.h"

#define P "/process.Process/"
#define F "/filesystem.Filesystem/"
#define READ ATOLL_SCOPE_READ
#define WRITE ATOLL_SCOPE_WRITE
#define JSON ATOLL_BODY_JSON

/* clang-format off */
static const struct atoll_route rows[] = {
    {ATOLL_POST, P "Start",            WRITE, JSON,              atoll_envd_process_start, NULL},
    {ATOLL_POST, P "Connect",          READ,  JSON,              atoll_envd_process_connect, NULL},
    {ATOLL_POST, P "List",             READ,  JSON,              atoll_envd_process_list, NULL},
    {ATOLL_POST, P "Update",           WRITE, JSON,              atoll_envd_process_update, NULL},
    {ATOLL_POST, P "SendInput",        WRITE, ATOLL_BODY_FILES,  atoll_envd_process_send_input,
     NULL},
    {ATOLL_POST, P "StreamInput",      WRITE, ATOLL_BODY_STREAM, atoll_envd_process_stream_input,
     NULL},
    {ATOLL_POST, P "SendSignal",       WRITE, JSON,              atoll_envd_process_signal, NULL},
    {ATOLL_POST, P "CloseStdin",       WRITE, JSON,              atoll_envd_process_close_stdin,
     NULL},

    {ATOLL_POST, F "Stat",             READ,  JSON,              atoll_envd_fs_stat, NULL},
    {ATOLL_POST, F "MakeDir",          WRITE, JSON,              atoll_envd_fs_make_dir, NULL},
    {ATOLL_POST, F "Move",             WRITE, JSON,              atoll_envd_fs_move, NULL},
    {ATOLL_POST, F "ListDir",          READ,  JSON,              atoll_envd_fs_list_dir, NULL},
    {ATOLL_POST, F "Remove",           WRITE, JSON,              atoll_envd_fs_remove, NULL},
    {ATOLL_POST, F "WatchDir",         READ,  JSON,              atoll_envd_watch_dir, NULL},
    {ATOLL_POST, F "CreateWatcher",    READ,  JSON,              atoll_envd_watcher_create, NULL},
    {ATOLL_POST, F "GetWatcherEvents", READ,  JSON,              atoll_envd_watcher_events, NULL},
    {ATOLL_POST, F "RemoveWatcher",    READ,  JSON,              atoll_envd_watcher_remove, NULL},

    {ATOLL_GET,  "/files",             READ,  ATOLL_BODY_NONE,   atoll_envd_download, NULL},
    {ATOLL_POST, "/files",             WRITE, ATOLL_BODY_STREAM, atoll_envd_upload, NULL},
    {ATOLL_POST, "/files/compose",     WRITE, JSON,              atoll_envd_compose, NULL},
    {ATOLL_GET,  "/health",            READ,  ATOLL_BODY_NONE,   atoll_envd_health, NULL},
    {ATOLL_GET,  "/metrics",           READ,  ATOLL_BODY_NONE,   atoll_envd_metrics, NULL},
    {ATOLL_GET,  "/envs",              READ,  ATOLL_BODY_NONE,   atoll_envd_envs, NULL},
};
/* clang-format on */

/* Errors. */

static void write_failure(struct atoll_json_out *out, int status, const char *text)
{
    atoll_json_open(out, NULL, '{');
    atoll_json_i64(out, "code", status);
    atoll_json_text(out, "message", text);
    atoll_json_close(out, '}');
}

void atoll_envd_refuse(struct atoll_http_request *req, int status, const char *text)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_buf_init(&buf, ATOLL_ERROR_TEXT_MAX * 6 + 256);
    atoll_json_out_init(&out, &buf);
    write_failure(&out, status, text);
    atoll_http_respond(req, status, "application/json", atoll_buf_head(&buf), atoll_buf_size(&buf));
    atoll_buf_done(&buf);
}

void atoll_envd_fail(struct atoll_api_call *call, int status, const char *text)
{
    struct atoll_buf buf;
    struct atoll_json_out out;

    atoll_api_reply_init(&buf, &out);
    write_failure(&out, status, text);
    atoll_api_reply(call, status, &out);
}

/* The text of an internal error is only in the log. */
static void fail(struct atoll_api_call *call, int status, const struct atoll_error *error)
{
    struct atoll_error shown = *error;
    bool is_rpc = call->route && strchr(call->route->path, '.') != NULL;

    if (status == 500) {
        shown.kind = ATOLL_ERR_INTERNAL;
        (void)snprintf(shown.text, sizeof(shown.text),
                       "internal error of the daemon; see its log for request id %s",
                       call->request_id);
    }
    if (is_rpc && call->handled)
        atoll_connect_fail(call, &shown);
    else
        atoll_envd_fail(call, status, shown.text);
}

/* Access checks. */

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES, "%s", text);
}

/* Files can also be accessed with a signed URL. The signature is checked before its expiration. */
static int check_files(const struct atoll_api_call *call, const char *token,
                       struct atoll_error *err)
{
    const char *shown = atoll_http_header(call->req, ATOLL_E2B_TOKEN_HEADER);

    if (shown)
        return atoll_token_fits(shown, token)
                   ? 0
                   : refuse(err, "access token present in header but does not match");
    if (!atoll_http_query(call->req, "signature"))
        return refuse(err, "missing signature query parameter");
    if (!atoll_e2b_signature_fits(call->req, token))
        return refuse(err, "invalid signature");
    return atoll_e2b_signature_expired(call->req) == 0
               ? 0
               : refuse(err, "signature is already expired");
}

static int admit(struct atoll_api_call *call, struct atoll_error *err)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    const char *shown = atoll_http_header(call->req, ATOLL_E2B_TOKEN_HEADER);
    const char *path = call->route ? call->route->path : "";
    struct atoll_e2b_facts facts;
    char token[ATOLL_TOKEN_LEN + 1];
    bool secure;

    /* These requests reveal nothing secret, and need no token. */
    if (!sandbox || !call->route || strcmp(path, "/health") == 0)
        return 0;
    atoll_e2b_facts_get(sandbox, &facts);
    secure = facts.secure;
    atoll_e2b_facts_done(&facts);
    atoll_api_act_for_owner(call, ATOLL_SCOPE_WRITE, "sandbox-token");
    if (!secure)
        return 0;
    atoll_e2b_envd_token(call->api, call->params.id, token);
    if (strcmp(path, "/files") == 0)
        return check_files(call, token, err);
    return atoll_token_fits(shown, token) ? 0 : refuse(err, ATOLL_E2B_UNAUTHORIZED);
}

static const struct atoll_protocol protocol = {.fail = fail, .admit = admit};

const struct atoll_routes atoll_e2b_envd_routes = {.rows = rows,
                                                   .count = ATOLL_ARRAY_LEN(rows),
                                                   .protocol = &protocol};

bool atoll_envd_is_running(const struct atoll_api_call *call)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_sandbox_view view;

    if (sandbox)
        atoll_sandbox_get(sandbox, &view);
    return sandbox && view.state == ATOLL_SANDBOX_RUNNING;
}

/* Users. */

int atoll_envd_user(const struct atoll_api_call *call, char *out, struct atoll_error *err)
{
    const char *header = call->req ? atoll_http_header(call->req, "authorization") : NULL;
    char text[ATOLL_ENVD_USER_MAX + 64];
    ssize_t n;
    const char *colon;

    out[0] = '\0';
    if (!header || strncasecmp(header, "basic ", 6) != 0)
        return 0;
    header += 6 + strspn(header + 6, " ");
    n = atoll_base64_bytes(text, sizeof(text) - 1, header, strlen(header));
    if (n >= 0) {
        text[n] = '\0';
        colon = memchr(text, ':', (size_t)n);
        if (colon && colon - text < ATOLL_ENVD_USER_MAX - 1 && strlen(text) == (size_t)n) {
            (void)snprintf(out, ATOLL_ENVD_USER_MAX - 1, "%.*s", (int)(colon - text), text);
            return 0;
        }
    }
    return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EINVAL,
                      "the Authorization header names no user");
}

int atoll_envd_file_user(const struct atoll_api_call *call, char *out, struct atoll_error *err)
{
    out[0] = '+';
    return atoll_envd_user(call, out + 1, err);
}
