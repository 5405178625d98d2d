/*
 * Requests about the session of one sandbox: commands, files, and the port of the relay.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "provider/remote/relayed.h"
#include "provider/remote/wait.h"
#include "provider/vercel/vercel_internal.h"

#define WHAT "start the agent"
#define UPLOAD_DIR "/tmp"
#define COMMAND_MS 60000
#define REQUEST_MS (COMMAND_MS + 10000)
/* Names of ports below this domain are in a header where one address serves all of them. */
#define PORT_DOMAIN "vercel.run"
#define HOST_HEADER "X-Atoll-Host"

struct session {
    struct atoll_remote_account account;
    struct atoll_remote_api api;
    const char *sandbox_url; /* NULL: each port has its own */
    const struct atoll_vercel_remote *remote;
};

static void session_done(struct session *s)
{
    atoll_remote_account_done(&s->account);
}
#define AUTOSESSION ATOLL_CLEANUP(session_done)

static int session_init(struct session *s, struct atoll_remote_provider *p,
                        const struct atoll_vercel_remote *remote, struct atoll_error *err)
{
    s->remote = remote;
    s->sandbox_url = atoll_vercel_of_remote(p)->sandbox_url;
    if (!s->sandbox_url && !atoll_remote_is_safe_url(p, remote->url))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          WHAT ": %s gives no address of the relay's port; set sandbox_url",
                          p->api.service->name);
    if (atoll_remote_account_open(&p->api, remote->of.key, &s->account, err) < 0)
        return -ENOKEY;
    s->api = s->account.api;
    s->api.timeout_ms = REQUEST_MS;
    return 0;
}

static int path_of(const struct session *s, const char *rest, char **ret, struct atoll_error *err)
{
    char path[ATOLL_VERCEL_SESSION_MAX + 64];

    (void)snprintf(path, sizeof(path), "/v2/sandboxes/sessions/%s%s", s->remote->session, rest);
    *ret = atoll_vercel_request_path(s->api.scope, path, NULL);
    return *ret ? 0 : atoll_fail_errno(err, ENOMEM, WHAT);
}

/* Installing. */

static int run_once(const struct session *s, const struct atoll_sync_call *call, const char *path,
                    const char *command, struct atoll_remote_exit *ret, struct atoll_error *err)
{
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    json_t *body = json_pack("{s:s, s:[s,s], s:s, s:{}, s:b, s:b, s:b, s:i}", "command", "/bin/sh",
                             "args", "-c", command, "cwd", "/", "env", "sudo", 0, "wait", 1, "logs",
                             1, "timeout", COMMAND_MS);
    int r = atoll_remote_api_ask(&s->api, call, WHAT, "POST", path, body, &answer, err);

    if (r < 0)
        return r;
    if (answer.status < 200 || answer.status > 299)
        return atoll_remote_api_refused(&s->api, WHAT, &answer, err);
    r = atoll_vercel_read_run(atoll_buf_head(&answer.body), atoll_buf_size(&answer.body), ret, err);
    return r < 0 ? atoll_wrap(err, WHAT) : 0;
}

/* The script can be repeated. */
static int run(void *arg, const struct atoll_sync_call *call, const char *const *argv,
               struct atoll_remote_exit *ret, struct atoll_error *err)
{
    const struct session *s = arg;
    ATOLL_AUTOFREE char *command = atoll_remote_as_root(argv), *path = NULL;
    struct atoll_remote_wait wait = {0};
    int r = command ? path_of(s, "/cmd", &path, err) : atoll_fail_errno(err, ENOMEM, WHAT);

    while (r == 0) {
        r = run_once(s, call, path, command, ret, err);
        if (r == 0)
            return 0;
        r = atoll_remote_wait(&wait, s->api.http, call, WHAT, r, err);
    }
    return r;
}

/* The archive has the file by the name that `path` ends with. */
static int upload(void *arg, const struct atoll_sync_call *call, const char *path ATOLL_UNUSED,
                  const void *bytes, size_t n, struct atoll_error *err)
{
    const struct session *s = arg;
    ATOLL_AUTOFREE char *to = NULL;
    int r = path_of(s, "/fs/write", &to, err);

    return r < 0 ? r
                 : atoll_remote_api_send(&s->api, call, WHAT, to, "Content-Type: application/gzip",
                                         "X-Cwd: " UPLOAD_DIR, bytes, n, err);
}

/* Streams. The key is not sent: processes of the sandbox could listen at that port. */

static int open_stream(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                       void *arg, const struct atoll_remote_sandbox *record,
                       const struct atoll_remote_relay *relay, int *ret_fd, struct atoll_error *err)
{
    const struct session *s = arg;
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    char url[ATOLL_VERCEL_URL_MAX + 1];
    struct atoll_remote_relay_way way = {.handle = record->handle, .url = url};
    size_t n;
    int r = 0;

    (void)snprintf(url, sizeof(url), "%s", s->sandbox_url ? s->sandbox_url : s->remote->url);
    n = strlen(url);
    if (n > 0 && url[n - 1] == '/')
        url[n - 1] = '\0';
    if (s->sandbox_url)
        r = atoll_remote_header(&headers, err, HOST_HEADER ": %s." PORT_DOMAIN,
                                s->remote->subdomain);
    way.headers = headers;
    return r < 0 ? r : atoll_remote_relay_dial(p->pump, call, &way, relay, ret_fd, err);
}

static struct atoll_remote_relayed relayed_of(struct atoll_remote_provider *p, struct session *s,
                                              struct atoll_vercel_remote *remote)
{
    return (struct atoll_remote_relayed){
        .installer = {.run = run,
                      .upload = upload,
                      .arg = s,
                      .upload_to = UPLOAD_DIR "/" ATOLL_REMOTE_ENTRY,
                      .http = true,
                      .port = atoll_vercel_of_remote(p)->relay_port},
        .record = &remote->of,
        .relay = &remote->relay,
        .open = open_stream};
}

int atoll_vercel_start_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                             struct atoll_remote_sandbox *record, struct atoll_error *err)
{
    struct atoll_vercel_remote *remote = atoll_vercel_record(record);
    AUTOSESSION struct session session = {0};
    const struct atoll_remote_relayed relayed = relayed_of(p, &session, remote);
    int r = session_init(&session, p, remote, err);

    return r < 0 ? r : atoll_remote_relayed_start(p, call, &relayed, err);
}

int atoll_vercel_dial_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                            struct atoll_remote_sandbox *record, int *ret_fd,
                            struct atoll_error *err)
{
    struct atoll_vercel_remote *remote = atoll_vercel_record(record);
    AUTOSESSION struct session session = {0};
    const struct atoll_remote_relayed relayed = relayed_of(p, &session, remote);
    int r = session_init(&session, p, remote, err);

    return r < 0 ? r : atoll_remote_relayed_dial(p, call, &relayed, ret_fd, err);
}
