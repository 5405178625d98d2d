/*
 * Requests to the service's daemon in each sandbox, the toolbox: processes, files and ports.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "provider/daytona/daytona_internal.h"
#include "provider/remote/relayed.h"
#include "provider/remote/wait.h"

#define WHAT "start the agent"
#define UPLOAD_TO "/tmp/.atoll-agent"
#define UPLOAD_MAX ((size_t)80 * 1024 * 1024)
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

static int toolbox_init(struct toolbox *t, struct atoll_remote_provider *p,
                        const struct atoll_daytona_remote *remote, struct atoll_error *err)
{
    const char *configured = atoll_daytona_of_remote(p)->toolbox_url;
    const char *url = configured ? configured : remote->toolbox;
    size_t n = strlen(url);

    /* The key is sent to this address. */
    if (!atoll_remote_is_safe_url(p, url))
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
    ATOLL_AUTOFREE char *command = atoll_remote_as_root(argv);
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
    struct atoll_buf form;
    int r;

    atoll_buf_init(&form, UPLOAD_MAX);
    if (atoll_daytona_form(&form, path, bytes, n) < 0)
        r = atoll_fail_errno(err, ENOMEM, WHAT);
    else
        r = atoll_remote_api_send(
            &t->api, call, WHAT, "/files/bulk-upload",
            "Content-Type: multipart/form-data; boundary=" ATOLL_DAYTONA_BOUNDARY, NULL,
            atoll_buf_head(&form), atoll_buf_size(&form), err);
    atoll_buf_done(&form);
    return r;
}

static struct atoll_remote_installer installer_of(struct toolbox *t)
{
    return (struct atoll_remote_installer){
        .run = run, .upload = upload, .arg = t, .upload_to = UPLOAD_TO, .http = true};
}

static int open_stream(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                       void *arg, const struct atoll_remote_sandbox *record,
                       const struct atoll_remote_relay *relay, int *ret_fd, struct atoll_error *err)
{
    const struct toolbox *t = arg;
    char url[sizeof(t->url) + 32];
    const struct atoll_remote_relay_way way = {
        .handle = record->handle, .url = url, .headers = t->api.headers};

    (void)snprintf(url, sizeof(url), "%s/proxy/%u", t->url, relay->port);
    return atoll_remote_relay_dial(p->pump, call, &way, relay, ret_fd, err);
}

static struct atoll_remote_relayed relayed_of(struct toolbox *t,
                                              struct atoll_daytona_remote *remote)
{
    return (struct atoll_remote_relayed){.installer = installer_of(t),
                                         .record = &remote->of,
                                         .relay = &remote->relay,
                                         .open = open_stream};
}

int atoll_daytona_start_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                              struct atoll_remote_sandbox *record, struct atoll_error *err)
{
    struct atoll_daytona_remote *remote = atoll_daytona_record(record);
    AUTOTOOLBOX struct toolbox toolbox = {0};
    const struct atoll_remote_relayed relayed = relayed_of(&toolbox, remote);
    int r = toolbox_init(&toolbox, p, remote, err);

    return r < 0 ? r : atoll_remote_relayed_start(p, call, &relayed, err);
}

int atoll_daytona_dial_agent(struct atoll_remote_provider *p, const struct atoll_sync_call *call,
                             struct atoll_remote_sandbox *record, int *ret_fd,
                             struct atoll_error *err)
{
    struct atoll_daytona_remote *remote = atoll_daytona_record(record);
    AUTOTOOLBOX struct toolbox toolbox = {0};
    const struct atoll_remote_relayed relayed = relayed_of(&toolbox, remote);
    int r = toolbox_init(&toolbox, p, remote, err);

    return r < 0 ? r : atoll_remote_relayed_dial(p, call, &relayed, ret_fd, err);
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
