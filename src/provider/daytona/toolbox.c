/*
 * Requests to the service's daemon in each sandbox, the toolbox: processes, files and ports.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "provider/daytona/daytona_internal.h"
#include "provider/remote/relay.h"
#include "provider/remote/wait.h"

#define WHAT "start the agent"
#define UPLOAD_TO "/tmp/.atoll-agent"
#define UPLOAD_MAX ((size_t)80 * 1024 * 1024)
#define UPLOAD_MS 300000
#define COMMAND_S 60
#define REQUEST_MS (COMMAND_S * 1000 + 10000)

/* The toolbox of one sandbox. */
struct toolbox {
    struct atoll_remote_account account;
    struct atoll_remote_api api; /* of the toolbox */
    char url[2 * ATOLL_DAYTONA_URL_MAX];
};

static void toolbox_done(struct toolbox *t)
{
    atoll_remote_account_done(&t->account);
}
#define AUTOTOOLBOX ATOLL_CLEANUP(toolbox_done)

/* The key is sent to this address. */
static bool is_safe(const struct atoll_remote_provider *p, const char *url)
{
    bool tls = strncmp(url, "https://", 8) == 0;

    return (tls || strncmp(url, "http://", 7) == 0) &&
           (tls || strncmp(p->api.url, "https://", 8) != 0) && !strpbrk(url, "?#@\"\\");
}

static int toolbox_init(struct toolbox *t, struct atoll_remote_provider *p,
                        const struct atoll_daytona_remote *remote, struct atoll_error *err)
{
    const char *configured = atoll_daytona_of_remote(p)->toolbox_url;
    const char *url = configured ? configured : remote->toolbox;
    size_t n = strlen(url);

    if (!is_safe(p, url))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                          WHAT ": %s gives no address of its toolbox; set toolbox_url",
                          p->api.service->name);
    if (n > 0 && url[n - 1] == '/')
        n--;
    (void)snprintf(t->url, sizeof(t->url), "%.*s/%s", (int)n, url, remote->of.handle);
    if (atoll_remote_account_open(&p->api, remote->of.key, &t->account, err) < 0)
        return -ENOKEY;
    t->api = t->account.api;
    t->api.url = t->url;
    t->api.timeout_ms = REQUEST_MS;
    return 0;
}

/* Installing. */

static int run(void *arg, const struct atoll_sync_call *call, const char *const *argv,
               struct atoll_remote_exit *ret, struct atoll_error *err)
{
    const struct toolbox *t = arg;
    ATOLL_AUTOFREE char *command = atoll_daytona_command(argv);
    struct atoll_remote_wait wait = {0};
    int r;

    if (!command)
        return atoll_fail_errno(err, ENOMEM, WHAT);
    /* The script can be repeated; the toolbox of a new sandbox may not answer at once. */
    for (;;) {
        ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
        const json_t *code;

        r = atoll_remote_api_json(&t->api, call, WHAT, "POST", "/process/execute",
                                  json_pack("{s:s, s:i}", "command", command, "timeout", COMMAND_S),
                                  &json, err);
        code = json_object_get(json, "exitCode");
        if (r == 0 && json_is_integer(code)) {
            const char *text = json_string_value(json_object_get(json, "result"));

            ret->code = (int)json_integer_value(code);
            (void)snprintf(ret->text, sizeof(ret->text), "%s", text ? text : "");
            return 0;
        }
        if (r == 0)
            r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                           WHAT ": the answer of %s is not that of a command",
                           t->api.service->name);
        r = atoll_remote_wait(&wait, t->api.http, call, WHAT, r, err);
        if (r < 0)
            return r;
    }
}

static int upload(void *arg, const struct atoll_sync_call *call, const char *path,
                  const void *bytes, size_t n, struct atoll_error *err)
{
    const struct toolbox *t = arg;
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    char url[sizeof(t->url) + 32];
    struct atoll_remote_request request = {
        .what = WHAT, .method = "POST", .url = url, .timeout_ms = UPLOAD_MS, .tries = 4};
    struct atoll_buf form;
    int r = 0;

    (void)snprintf(url, sizeof(url), "%s/files/bulk-upload", t->url);
    for (const struct curl_slist *h = t->api.headers; r == 0 && h; h = h->next)
        if (strncasecmp(h->data, "Content-Type:", 13) != 0)
            r = atoll_remote_header(&headers, err, "%s", h->data);
    if (r == 0)
        r = atoll_remote_header(
            &headers, err, "Content-Type: multipart/form-data; boundary=" ATOLL_DAYTONA_BOUNDARY);
    if (r == 0)
        r = atoll_remote_header(&headers, err, "Expect:");
    if (r < 0)
        return r;
    atoll_buf_init(&form, UPLOAD_MAX);
    if (atoll_daytona_form(&form, path, bytes, n) < 0)
        r = atoll_fail_errno(err, ENOMEM, WHAT);
    request.headers = headers;
    request.body = atoll_buf_head(&form);
    request.body_len = atoll_buf_size(&form);
    if (r == 0)
        r = atoll_remote_http_ask(t->api.http, call, &request, &answer, err);
    if (r == 0 && (answer.status < 200 || answer.status > 299))
        r = atoll_remote_api_refused(&t->api, WHAT, &answer, err);
    atoll_buf_done(&form);
    return r;
}

static struct atoll_remote_installer installer_of(struct toolbox *t)
{
    return (struct atoll_remote_installer){
        .run = run, .upload = upload, .arg = t, .upload_to = UPLOAD_TO, .http = true};
}

int atoll_daytona_start_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                              struct atoll_remote_sandbox *record, struct atoll_error *err)
{
    struct atoll_daytona_remote *remote = atoll_daytona_record(record);
    AUTOTOOLBOX struct toolbox toolbox = {0};
    const struct atoll_remote_installer installer = installer_of(&toolbox);
    struct atoll_remote_exit exit;
    int r = toolbox_init(&toolbox, p, remote, err);

    if (r == 0)
        r = atoll_remote_agent_start(p->agent, call, &installer, &exit, err);
    if (r == 0 && !atoll_remote_relay_read(exit.text, &remote->relay))
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EBADMSG,
                       WHAT ": its relay does not say where it listens");
    return r < 0 ? r : atoll_remote_leases_put(p->leases, record->handle, remote, false, true, err);
}

/* Streams. */

static int open_stream(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                       const struct toolbox *t, const struct atoll_daytona_remote *remote,
                       int *ret_fd, struct atoll_error *err)
{
    char url[sizeof(t->url) + 32];
    const struct atoll_remote_relay_way way = {
        .handle = remote->of.handle, .url = url, .headers = t->api.headers};

    (void)snprintf(url, sizeof(url), "%s/proxy/%u", t->url, remote->relay.port);
    return atoll_remote_relay_dial(p->pump, call, &way, &remote->relay, ret_fd, err);
}

/* A relay that is not known, or that does not answer, is started: another one has another token. */
int atoll_daytona_dial_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                             struct atoll_remote_sandbox *record, int *ret_fd,
                             struct atoll_error *err)
{
    struct atoll_daytona_remote *remote = atoll_daytona_record(record);
    AUTOTOOLBOX struct toolbox toolbox = {0};
    const struct atoll_remote_installer installer = installer_of(&toolbox);
    struct atoll_error failure;
    int r = toolbox_init(&toolbox, p, remote, err);

    if (r < 0)
        return r;
    if (remote->relay.port != 0) {
        r = open_stream(p, call, &toolbox, remote, ret_fd, err);
        if (r == 0 || err->kind == ATOLL_ERR_ABORTED || err->kind == ATOLL_ERR_DEADLINE_EXCEEDED ||
            atoll_remote_leases_is_silent(p->leases, record->handle))
            return r;
    }
    if (atoll_remote_relay_start(call, &installer, &remote->relay, &failure) < 0) {
        if (r == 0)
            *err = failure;
        return -failure.errnum;
    }
    r = atoll_remote_leases_put(p->leases, record->handle, remote, false, false, err);
    return r < 0 ? r : open_stream(p, call, &toolbox, remote, ret_fd, err);
}

/* Statistics. */

int atoll_daytona_op_stats(struct atoll_sync_provider *base, const struct atoll_sync_call *call,
                           const struct atoll_spec *spec, struct atoll_provider_stats *ret,
                           struct atoll_error *err)
{
    struct atoll_remote_provider *p = atoll_remote_of(base);
    ATOLL_REMOTE_AUTOJSON json_t *json = NULL;
    AUTOTOOLBOX struct toolbox toolbox = {0};
    struct atoll_daytona_remote remote = {0};
    double cpus, percent;
    int r;

    if (!atoll_remote_leases_get(p->leases, spec->handle, &remote))
        return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, ENODATA,
                          "stats: the sandbox is not connected yet");
    r = toolbox_init(&toolbox, p, &remote, err);
    if (r == 0)
        r = atoll_remote_api_json(&toolbox.api, call, "stats", "GET", "/system/metrics", NULL,
                                  &json, err);
    *ret = (struct atoll_provider_stats){0};
    /* An older service does not measure: the agent does. */
    if (r < 0 && (err->kind == ATOLL_ERR_NOT_FOUND || err->kind == ATOLL_ERR_UNIMPLEMENTED))
        return 0;
    if (r < 0)
        return r;
    cpus = (double)atoll_remote_take_count(json, "cpuCount");
    percent = json_number_value(json_object_get(json, "cpuUsedPct"));
    *ret = (struct atoll_provider_stats){
        .memory_bytes = atoll_remote_take_count(json, "memUsed"),
        .memory_limit_bytes = atoll_remote_take_count(json, "memTotal"),
        .disk_bytes = atoll_remote_take_count(json, "diskUsed"),
        .disk_limit_bytes = atoll_remote_take_count(json, "diskTotal"),
        .cpu_limit_millis = (uint32_t)ATOLL_MIN(cpus * 1000, 1e9),
        .has_cpu_percent = percent >= 0 && percent<1e6, .cpu_percent = percent> 0 && percent < 1e6
                               ? percent * ATOLL_MAX(cpus, 1.0)
                               : 0,
    };
    return 0;
}
