#include <curl/curl.h>
#include <errno.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "engine/json_memory.h"
#include "guard/guard_internal.h"
#include "guard/program.h"
#include "network/policy.h"

/*
 * Interceptors: the operator's program, and webhooks of the policies. A job has copies of all that it needs: the call
 * may be gone before it ends.
 */
#define THREADS 8
#define QUEUE_MAX 256
#define CONNECTIONS 32

struct atoll_guard_job {
    struct atoll_job job;
    struct atoll_guard_call *call; /* loop's thread only; NULL: it is gone */
    struct atoll_guard *guard;
    char tenant[65], name[65];
    char *url, *secret; /* owned; url NULL: the program */
    char *body;         /* owned */
    bool internal;      /* the URL may have an address that is not public */
    bool fails_open, ran;
    uint32_t timeout_ms;
    struct atoll_buf answer;
    struct atoll_error error;
    int result;
};

static void job_free(struct atoll_guard_job *j)
{
    if (j->secret)
        explicit_bzero(j->secret, strlen(j->secret));
    free(j->url);
    free(j->secret);
    free(j->body);
    atoll_buf_done(&j->answer);
    free(j);
}

/* --- requests; on a worker --- */

/* X-Atoll-Signature: t=SECONDS,v1=HEX of HMAC-SHA-256 over "SECONDS.BODY". */
static int sign(const struct atoll_guard_job *j, struct curl_slist **headers,
                struct atoll_error *err)
{
    long long seconds = (long long)(atoll_clock_unix_ms() / 1000);
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1], *text = NULL;
    int n;

    if (!j->secret)
        return 0;
    n = asprintf(&text, "%lld.%s", seconds, j->body);
    if (n < 0 || !HMAC(EVP_sha256(), j->secret, (int)strlen(j->secret), (unsigned char *)text,
                       (size_t)n, mac, &len)) {
        free(text);
        return atoll_fail_errno(err, ENOMEM, "signature");
    }
    free(text);
    for (unsigned i = 0; i < len; i++)
        (void)snprintf(hex + (size_t)2 * i, 3, "%02x", mac[i]);
    return atoll_remote_header(headers, err, "X-Atoll-Signature: t=%lld,v1=%s", seconds, hex);
}

static int post(struct atoll_guard_job *j, struct atoll_error *err)
{
    const struct atoll_sync_call call = {.deadline_ms = atoll_clock_ms() + j->timeout_ms,
                                         .cancel_fd = j->guard->cancel_fds[0]};
    ATOLL_REMOTE_AUTOSLIST struct curl_slist *headers = NULL;
    ATOLL_REMOTE_AUTOANSWER struct atoll_remote_answer answer = {0};
    int r = atoll_remote_header(&headers, err, "Content-Type: application/json");

    if (r == 0)
        r = sign(j, &headers, err);
    if (r == 0)
        r = atoll_remote_http_ask(j->internal ? j->guard->any : j->guard->public, &call,
                                  &(struct atoll_remote_request){
                                      .method = "POST",
                                      .url = j->url,
                                      .headers = headers,
                                      .body = j->body,
                                      .body_len = strlen(j->body),
                                      .answer_max = ATOLL_GUARD_ANSWER_MAX,
                                  },
                                  &answer, err);
    if (r < 0 && err->kind == ATOLL_ERR_PERMISSION_DENIED)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                          "webhooks reach only public addresses; the operator can allow others "
                          "with --webhook-internal");
    if (r == 0 && (answer.status < 200 || answer.status > 299))
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EIO, "it answered with status %ld",
                       answer.status);
    if (r == 0)
        r = atoll_buf_append(&j->answer, atoll_buf_head(&answer.body),
                             atoll_buf_size(&answer.body)) < 0
                ? atoll_fail_errno(err, ENOMEM, "answer of an interceptor")
                : 0;
    return r;
}

static void run(struct atoll_job *job)
{
    struct atoll_guard_job *j = ATOLL_CONTAINER_OF(job, struct atoll_guard_job, job);

    j->ran = true;
    j->result = j->url ? post(j, &j->error)
                       : atoll_guard_program_run(j->guard->config.program, j->body, strlen(j->body),
                                                 (int)j->timeout_ms, &j->answer, &j->error);
}

/* --- answers; on the loop --- */

static void done(struct atoll_job *job)
{
    struct atoll_guard_job *j = ATOLL_CONTAINER_OF(job, struct atoll_guard_job, job);
    struct atoll_guard_call *call = j->call;
    json_t *answer = NULL;

    if (!call) {
        job_free(j);
        return;
    }
    call->job = NULL;
    if (!j->ran)
        j->result = atoll_fail(&j->error, ATOLL_ERR_UNAVAILABLE, ECANCELED, "the daemon ends");
    if (j->result == 0 && atoll_buf_size(&j->answer) > 0) {
        answer = atoll_json_load(atoll_buf_head(&j->answer), atoll_buf_size(&j->answer),
                                 JSON_REJECT_DUPLICATES, NULL);
        if (!json_is_object(answer))
            j->result = atoll_fail(&j->error, ATOLL_ERR_INVALID_ARGUMENT, EBADMSG,
                                   "its answer is not a JSON object");
    }
    atoll_guard_hook_answered(call, j->name, j->fails_open, answer,
                              j->result < 0 ? &j->error : NULL);
    json_decref(answer);
    job_free(j);
}

/* --- jobs --- */

static int open_clients(struct atoll_guard *guard, struct atoll_error *err)
{
    static const struct atoll_remote_service service = {.name = "the webhook", .label = "webhook"};
    struct atoll_remote_http_config config = {
        .service = &service, .connections = CONNECTIONS, .direct = true, .http1 = true};
    int r = 0;

    if (!guard->workers)
        r = atoll_workers_new(guard->config.loop, THREADS, QUEUE_MAX, &guard->workers, err);
    if (r == 0 && !guard->any)
        r = atoll_remote_http_new(&config, &guard->any, err);
    config.may_connect = atoll_network_is_public;
    if (r == 0 && !guard->public)
        r = atoll_remote_http_new(&config, &guard->public, err);
    return r;
}

void atoll_guard_hooks_close(struct atoll_guard *guard)
{
    guard->workers = atoll_workers_free(guard->workers);
    guard->any = atoll_remote_http_free(guard->any);
    guard->public = atoll_remote_http_free(guard->public);
}

static void auto_url(CURLU **u)
{
    curl_url_cleanup(*u);
}

/* Whether HOST or HOST:PORT of the URL is in the operator's list. */
static bool is_listed(const char *list, const char *url)
{
    ATOLL_CLEANUP(auto_url) CURLU *u = curl_url();
    char *host = NULL, *port = NULL;
    char both[512];
    bool found = false;

    if (!list || !u || curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK)
        return false;
    if (curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) != CURLUE_OK)
        port = NULL;
    (void)snprintf(both, sizeof(both), "%s:%s", host, port ? port : "");
    for (const char *p = list + strspn(list, ", \t"); *p && !found; p += strspn(p, ", \t")) {
        size_t n = strcspn(p, ", \t");

        found = (n == strlen(host) && strncmp(p, host, n) == 0) ||
                (n == strlen(both) && strncmp(p, both, n) == 0);
        p += n;
    }
    curl_free(host);
    curl_free(port);
    return found;
}

static char *message(const struct atoll_guard_call *call)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:O, s:s?, s:s, s:s}", "phase",
                             call->phase == ATOLL_GUARD_BEFORE ? "before" : "after", "id", call->id,
                             "tool", call->tool, "arguments", call->args, "sandboxId",
                             *call->sandbox_id ? call->sandbox_id : NULL, "tenant", call->tenant,
                             "decision", atoll_guard_verdict_name(call->decision.verdict));
    char *text;

    if (json && call->phase == ATOLL_GUARD_AFTER)
        (void)json_object_set_new(json, "result",
                                  json_pack("{s:s, s:b, s:O?}", "text", call->text, "is_error",
                                            call->is_error, "data", call->data));
    text = json ? atoll_json_dump(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static void submit(struct atoll_guard_call *call, const struct atoll_guard_hook *hook)
{
    struct atoll_guard *guard = call->guard;
    struct atoll_guard_job *j = atoll_alloc(sizeof(*j));
    struct atoll_error error;
    int r = open_clients(guard, &error);

    *j = (struct atoll_guard_job){
        .job = {.run = run, .done = done},
        .call = call,
        .guard = guard,
        .body = message(call),
        .timeout_ms = hook ? hook->timeout_ms : guard->config.program_timeout_ms,
        .fails_open = hook ? hook->fails_open : guard->config.program_fails_open,
        .url = hook ? strdup(hook->url) : NULL,
        .secret = hook && hook->secret ? strdup(hook->secret) : NULL,
        .internal = hook && is_listed(guard->config.internal, hook->url),
    };
    atoll_buf_init(&j->answer, ATOLL_GUARD_ANSWER_MAX);
    (void)snprintf(j->name, sizeof(j->name), "%.64s", hook ? hook->name : "of the operator");
    (void)snprintf(j->tenant, sizeof(j->tenant), "%s", call->tenant);
    j->job.owner = j->tenant;
    if (r == 0 && (!j->body || (hook && !j->url)))
        r = atoll_fail_errno(&error, ENOMEM, "request to an interceptor");
    if (r == 0)
        r = atoll_workers_submit(guard->workers, &j->job, &error);
    if (r == 0) {
        call->job = j;
        return;
    }
    j->ran = true;
    j->result = r;
    j->error = error;
    done(&j->job);
}

static const struct atoll_guard_hook *hook_at(const struct atoll_guard_call *call, size_t i)
{
    const struct atoll_guard_hook *hook = NULL;

    for (size_t p = 0; p < ATOLL_ARRAY_LEN(call->policies) && !hook; p++) {
        size_t own = 0;

        while (call->policies[p] && atoll_guard_policy_hook(call->policies[p], own))
            own++;
        if (i < own)
            hook = atoll_guard_policy_hook(call->policies[p], i);
        else
            i -= own;
    }
    return hook;
}

bool atoll_guard_hook_next(struct atoll_guard_call *call)
{
    struct atoll_guard_subject subject = {0};
    const struct atoll_guard_hook *hook;
    size_t at = call->hook++; /* 0: the program */
    struct atoll_error error;

    if (at == 0 && call->guard->config.program) {
        submit(call, NULL);
        return true;
    }
    if (at == 0)
        at = call->hook++;
    if (!hook_at(call, at - 1))
        return false;
    if (call->ops->describe(call->arg, call->args, &subject, &error) < 0)
        subject = (struct atoll_guard_subject){.tool = call->tool, .mcp_name = call->tool};
    for (; (hook = hook_at(call, at - 1)); at = call->hook++)
        if ((call->phase == ATOLL_GUARD_BEFORE ? hook->before : hook->after) &&
            atoll_guard_hook_wants(hook, &subject)) {
            submit(call, hook);
            return true;
        }
    return false;
}

void atoll_guard_hook_drop(struct atoll_guard_call *call)
{
    if (call->job)
        call->job->call = NULL;
    call->job = NULL;
}
