/*
 * Requests of the pump that no caller waits for: they kill processes whose stream was closed, and
 * extend the time to live of sandboxes.
 */
#include <stdio.h>
#include <string.h>
#include "provider/remote/pump_internal.h"

#define TASKS_MAX 64
#define LEASES_AT_ONCE 8
#define TIMEOUT_MS 15000
#define KILL_BODY_MAX 4096

struct task {
    struct atoll_list node;
    struct atoll_remote_pump *pump;
    struct atoll_remote_transfer transfer;
    char *url, *body;                         /* owned */
    struct curl_slist *headers;               /* owned */
    char handle[ATOLL_REMOTE_HANDLE_MAX + 1]; /* lease: the sandbox; else "" */
};

static void task_free(struct task *e)
{
    atoll_remote_transfer_end(e->pump, &e->transfer);
    curl_easy_cleanup(e->transfer.easy);
    curl_slist_free_all(e->headers);
    atoll_remote_answer_done(&e->transfer.answer);
    atoll_list_remove(&e->node);
    e->pump->task_count--;
    free(e->url);
    free(e->body);
    free(e);
}

static void on_done(struct atoll_remote_transfer *t, CURLcode code)
{
    struct task *e = ATOLL_CONTAINER_OF(t, struct task, transfer);
    long status = t->answer.status;

    if (e->handle[0]) {
        const struct atoll_remote_pump_config *c = &e->pump->config;
        /* 404, 410: the sandbox is gone and needs no more time; inspect() will report it. */
        bool moved =
            code == CURLE_OK && ((status >= 200 && status < 300) || status == 404 || status == 410);

        if (code == CURLE_OK && c->extended)
            c->extended(c->arg, e->handle, &t->answer);
        atoll_remote_leases_extended(c->leases, e->handle, moved);
    }
    task_free(e);
}

static struct task *task_new(struct atoll_remote_pump *p)
{
    struct task *e = p->task_count < TASKS_MAX ? calloc(1, sizeof(*e)) : NULL;

    if (!e)
        return NULL;
    e->pump = p;
    e->transfer.done = on_done;
    e->transfer.easy = curl_easy_init();
    atoll_list_push_back(&p->tasks, &e->node);
    p->task_count++;
    return e;
}

/* A failure is harmless: killing is best effort, and a lease is retried. */
static bool task_begin(struct task *e, const char *method, const struct curl_slist *headers)
{
    if (!e->transfer.easy || !e->url || !e->body)
        return false;
    e->transfer.request = (struct atoll_remote_request){
        .method = method,
        .url = e->url,
        .headers = headers,
        .body = e->body,
        .body_len = strlen(e->body),
        .timeout_ms = TIMEOUT_MS,
    };
    return atoll_remote_transfer_begin(e->pump, &e->transfer) == 0;
}

void atoll_remote_background_kill(struct atoll_remote_pump *p, const struct atoll_remote_stream *s)
{
    struct task *e = s->to[ATOLL_REMOTE_KILL].url ? task_new(p) : NULL;
    struct atoll_buf body;

    if (!e)
        return;
    e->url = strdup(s->to[ATOLL_REMOTE_KILL].url);
    atoll_buf_init(&body, KILL_BODY_MAX);
    if (s->ops->kill(s->state, &body) == 0)
        e->body = strdup(atoll_buf_str(&body));
    atoll_buf_done(&body);
    if (atoll_remote_headers(&e->headers, s->headers, NULL) < 0 ||
        !task_begin(e, s->to[ATOLL_REMOTE_KILL].method, e->headers))
        task_free(e);
}

static void move_lease(struct atoll_remote_pump *p, const char *handle)
{
    const struct atoll_remote_pump_config *c = &p->config;
    struct task *e = task_new(p);

    if (e) {
        struct atoll_remote_extension request = {0};
        int r = c->extend(c->arg, handle, atoll_remote_leases_lease_s(c->leases), &request);

        (void)snprintf(e->handle, sizeof(e->handle), "%s", handle);
        e->url = request.url;
        e->body = request.body;
        e->headers = request.headers;
        if (r >= 0 && task_begin(e, c->extend_method, e->headers))
            return;
        task_free(e);
    }
    atoll_remote_leases_extended(c->leases, handle, false);
}

int64_t atoll_remote_background_leases(struct atoll_remote_pump *p, int64_t now_ms)
{
    char handle[ATOLL_REMOTE_HANDLE_MAX + 1];
    int64_t wait_ms = 0;

    for (int i = 0; i < LEASES_AT_ONCE; i++) {
        if (!atoll_remote_leases_due(p->config.leases, now_ms, handle, &wait_ms))
            return wait_ms;
        move_lease(p, handle);
    }
    return 1000;
}

void atoll_remote_background_drop(struct atoll_remote_pump *p)
{
    ATOLL_LIST_FOREACH (&p->tasks, node) {
        task_free(ATOLL_CONTAINER_OF(node, struct task, node));
    }
}
