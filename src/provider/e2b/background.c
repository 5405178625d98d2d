/*
 * Requests of the pump that no caller waits for: they kill processes whose stream was closed, and
 * extend the time to live of sandboxes.
 */
#include <stdio.h>
#include <string.h>
#include "provider/e2b/pump_internal.h"

#define TASKS_MAX 64
#define LEASES_AT_ONCE 8
#define TIMEOUT_MS 15000L

struct task {
    struct atoll_list node;
    struct atoll_e2b_pump *pump;
    struct atoll_e2b_transfer transfer;
    char *url, *body;           /* owned */
    struct curl_slist *headers; /* owned; NULL: the headers of the API */
    struct atoll_e2b_answer answer;
    char handle[ATOLL_E2B_HANDLE_MAX + 1]; /* lease: the sandbox; else "" */
};

static void task_free(struct task *e)
{
    atoll_e2b_transfer_end(e->pump, &e->transfer);
    curl_easy_cleanup(e->transfer.easy);
    curl_slist_free_all(e->headers);
    atoll_e2b_answer_done(&e->answer);
    atoll_list_remove(&e->node);
    e->pump->task_count--;
    free(e->url);
    free(e->body);
    free(e);
}

static void on_done(struct atoll_e2b_transfer *t, CURLcode code, long status)
{
    struct task *e = ATOLL_CONTAINER_OF(t, struct task, transfer);

    if (e->handle[0]) {
        /* 404: the sandbox is gone and needs no more time; inspect() will report it. */
        bool moved = code == CURLE_OK && ((status >= 200 && status < 300) || status == 404);
        atoll_e2b_remotes_extended(e->pump->config.remotes, e->handle, moved);
    }
    task_free(e);
}

static struct task *task_new(struct atoll_e2b_pump *p)
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
static bool task_begin(struct task *e)
{
    if (!e->transfer.easy || !e->url || !e->body)
        return false;
    e->transfer.ask =
        (struct atoll_e2b_ask){.method = "POST",
                               .url = e->url,
                               .ca = e->pump->config.ca,
                               .headers = e->headers ? e->headers : e->pump->config.api_headers,
                               .body = e->body,
                               .body_len = strlen(e->body)};
    atoll_e2b_http_prepare(e->transfer.easy, &e->transfer.ask);
    atoll_e2b_http_collect(e->transfer.easy, &e->answer);
    (void)curl_easy_setopt(e->transfer.easy, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
    return atoll_e2b_transfer_begin(e->pump, &e->transfer) == 0;
}

void atoll_e2b_background_kill(struct atoll_e2b_pump *p, const struct atoll_e2b_stream *s)
{
    struct task *e = task_new(p);

    if (!e)
        return;
    e->url = strdup(s->kill_url);
    e->body = atoll_e2b_dump(atoll_e2b_kill_message(s->pid));
    for (const struct curl_slist *h = s->headers; h; h = h->next) {
        struct curl_slist *more = curl_slist_append(e->headers, h->data);
        e->headers = more ? more : e->headers;
    }
    /* Without own headers the request would be sent with those of the API, including the key. */
    if (!e->headers || !task_begin(e))
        task_free(e);
}

static void move_lease(struct atoll_e2b_pump *p, const char *handle)
{
    struct task *e = task_new(p);
    char body[48];
    int n = 0;

    if (e) {
        (void)snprintf(e->handle, sizeof(e->handle), "%s", handle);
        n = asprintf(&e->url, "%s/sandboxes/%s/timeout", p->config.api_url, handle);
        (void)snprintf(body, sizeof(body), "{\"timeout\":%u}",
                       atoll_e2b_remotes_lease_s(p->config.remotes));
        e->url = n < 0 ? NULL : e->url;
        e->body = strdup(body);
        if (task_begin(e))
            return;
        task_free(e);
    }
    atoll_e2b_remotes_extended(p->config.remotes, handle, false);
}

int64_t atoll_e2b_background_leases(struct atoll_e2b_pump *p, int64_t now_ms)
{
    char handle[ATOLL_E2B_HANDLE_MAX + 1];
    int64_t wait_ms = 0;

    for (int i = 0; i < LEASES_AT_ONCE; i++) {
        if (!atoll_e2b_remotes_due(p->config.remotes, now_ms, handle, &wait_ms))
            return wait_ms;
        move_lease(p, handle);
    }
    return 1000;
}

void atoll_e2b_background_drop(struct atoll_e2b_pump *p)
{
    ATOLL_LIST_FOREACH (&p->tasks, node) {
        task_free(ATOLL_CONTAINER_OF(node, struct task, node));
    }
}
